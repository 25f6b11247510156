// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/status.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "apps/common/json_bytes.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "apps/rh_dag/board_reader.h"
#include "apps/rh_dag/records.h"
#include "apps/rh_dag/run_requests.h"
#include "apps/services/dag/graph/task.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr std::uint64_t kLookNs = 2 * kNsPerMs;

nlohmann::json to_json(const Board& board) {
  nlohmann::json runs = nlohmann::json::array();
  for (const dag::RunSlot& run : board.runs) {
    runs.push_back({{"run", dag::text_of(run.name)},
                    {"phase", dag::to_string(run.phase)},
                    {"priority", run.priority},
                    {"nodes", run.nodes},
                    {"edges", run.edges},
                    {"completed", std::min<std::uint64_t>(run.completed, run.nodes)},
                    {"lost", run.lost},
                    {"retried", run.retried},
                    {"text", dag::text_of(run.text)}});
  }
  nlohmann::json workers = nlohmann::json::array();
  for (const dag::WorkerSlot& worker : board.workers) {
    workers.push_back({{"worker", dag::text_of(worker.name)}, {"client", worker.client}});
  }
  return {{"program", "rh-dag"}, {"runs", std::move(runs)}, {"workers", std::move(workers)}};
}

std::string print(const Board& board) {
  std::string out = fmt::format("{:<24} {:<9} {:>5} {:>10} {:>10} {:>6} {:>6}\n", "run", "phase",
                                "class", "nodes", "done", "lost", "again");
  for (const dag::RunSlot& run : board.runs) {
    out += fmt::format("{:<24} {:<9} {:>5} {:>10} {:>10} {:>6} {:>6}\n", dag::text_of(run.name),
                       dag::to_string(run.phase), run.priority, run.nodes,
                       std::min<std::uint64_t>(run.completed, run.nodes), run.lost, run.retried);
    if (const auto text = dag::text_of(run.text); !text.empty()) {
      out += fmt::format("  {}\n", text);
    }
  }
  out += fmt::format("{} workers", board.workers.size());
  const char* between = ": ";
  for (const dag::WorkerSlot& worker : board.workers) {
    out += between;
    out += dag::key_text(dag::text_of(worker.name));
    between = ", ";
  }
  return out + '\n';
}

Expected<std::unique_ptr<Records>> open_records(const Site& site) {
  ROCKHOPPER_TRY(auto placement, site.connect.make_home_placement());
  return Records::open(site.connect, site.config, site.arguments, std::move(placement));
}

Expected<void> pause(Connection& connection, std::uint64_t duration_ns) {
  const std::uint64_t end_ns = steady_now_ns() + duration_ns;
  while (steady_now_ns() < end_ns) {
    if (stop_requested()) return tl::make_unexpected(interrupted());
    (void)connection.turn();
  }
  return {};
}

}  // namespace

void add_status_options(OptionSet app, StatusOptions& options) {
  app.add_option("--watch", options.watch_s, "again and again, after so many seconds each time")
      .range(0.01, 86400.0)
      .type_name("SECONDS");
  add_connect_options(app, options.connect);
}

Expected<void> show_status(const StatusOptions& options, const Site& site) {
  ROCKHOPPER_TRY(auto records, open_records(site));
  Connection& connection = records->connection();
  ROCKHOPPER_TRY(auto reader, BoardReader::create(connection, site.connect.home));
  const bool clears = options.watch_s > 0 && !site.connect.json && isatty(STDOUT_FILENO) != 0;
  for (;;) {
    ROCKHOPPER_TRY(auto board, reader->read());
    if (site.connect.json) {
      fmt::print("{}\n",
                 to_json(board).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    } else {
      fmt::print("{}{}", clears ? "\033[H\033[2J" : "", print(board));
    }
    (void)std::fflush(stdout);
    if (options.watch_s == 0) break;
    // Watching lasts until a signal, as it should.
    if (!pause(connection, static_cast<std::uint64_t>(options.watch_s * 1e9))) break;
  }
  if (site.connect.endpoint.stats_s > 0) connection.print_statistics(stderr);
  return {};
}

void add_run_options(OptionSet app, RunOptions& options, RunVerb verb) {
  app.add_option("run", options.run, "the run's name").required().type_name("RUN");
  if (verb == RunVerb::cancel) {
    app.add_flag("--wait", options.wait, "until nobody runs a node of it any more");
  }
  add_connect_options(app, options.connect);
}

Expected<void> change_run(const RunOptions& options, RunVerb verb, const Site& site) {
  ROCKHOPPER_TRY(auto records, open_records(site));
  RunRequests requests(*records, site.connect.home);
  if (verb == RunVerb::cancel) {
    if (auto canceled = requests.cancel(options.run); !canceled || !options.wait) return canceled;
  }
  ROCKHOPPER_TRY(auto reader, BoardReader::create(records->connection(), site.connect.home));
  if (verb == RunVerb::drop) {
    ROCKHOPPER_TRY(auto board, reader->read());
    const dag::RunSlot* run = find_run(board, options.run);
    if (run != nullptr) return requests.drop(*run);
    return fail(ErrorCode::not_found, "the run was not dropped: there is no such run");
  }
  for (;;) {
    ROCKHOPPER_TRY(auto board, reader->read());
    const dag::RunSlot* run = find_run(board, options.run);
    if (run == nullptr || has_ended(run->phase)) return {};
    ROCKHOPPER_TRY(pause(records->connection(), kLookNs));
  }
}

}  // namespace rockhopper::apps::dag_node
