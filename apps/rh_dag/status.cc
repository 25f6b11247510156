// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <algorithm>
#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "apps/common/json_bytes.h"
#include "apps/common/steady_clock.h"
#include "apps/rh_dag/board_reader.h"
#include "apps/rh_dag/commands.h"
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
    if (const auto text = dag::text_of(run.text); !text.empty()) out += fmt::format("  {}\n", text);
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

Expected<void> show_status(double watch_s, const Site& site) {
  ROCKHOPPER_TRY(auto records, open_records(site));
  Connection& connection = records->connection();
  ROCKHOPPER_TRY(auto reader, BoardReader::create(connection, site.connect.home));
  const bool clears = watch_s > 0 && !site.connect.json && isatty(STDOUT_FILENO) != 0;
  for (;;) {
    ROCKHOPPER_TRY(auto board, reader->read());
    if (site.connect.json) {
      fmt::print("{}\n",
                 to_json(board).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    } else {
      fmt::print("{}{}", clears ? "\033[H\033[2J" : "", print(board));
    }
    (void)std::fflush(stdout);
    if (watch_s == 0) break;
    // Watching lasts until a signal, as it should.
    if (!connection.turn_for(static_cast<std::uint64_t>(watch_s * 1e9))) break;
  }
  if (site.connect.endpoint.stats_s > 0) connection.print_statistics(stderr);
  return {};
}

class StatusCommand final : public ClientCommand {
 public:
  explicit StatusCommand(const OptionSet& app)
      : ClientCommand(app, "status",
                      "Shows runs and workers of a home, which has no work with it (RDMA READ).") {
    options()
        .add_option("--watch SECONDS", watch_s_, "again and again, after so many seconds each time")
        .range(0.01, 86400.0);
    add_connection();
  }

 private:
  [[nodiscard]] Expected<void> execute(const Site& site) override {
    return show_status(watch_s_, site);
  }

  double watch_s_ = 0;  ///< between tables; 0: one only
};

/// A command about one run.
class RunCommand : public ClientCommand {
 protected:
  RunCommand(const OptionSet& app, std::string_view name, std::string_view summary)
      : ClientCommand(app, name, summary) {
    options().add_option("run RUN", run_, "the run's name").required();
  }
  [[nodiscard]] Expected<void> prepare() override { return check_run_name(run_); }
  [[nodiscard]] const std::string& run_name() const { return run_; }

 private:
  std::string run_;
};

class CancelCommand final : public RunCommand {
 public:
  explicit CancelCommand(const OptionSet& app)
      : RunCommand(app, "cancel", "Ends a run before it is complete.") {
    options().add_flag("--wait", wait_, "until nobody runs a node of it any more");
    add_connection();
  }

 private:
  [[nodiscard]] Expected<void> execute(const Site& site) override {
    ROCKHOPPER_TRY(auto records, open_records(site));
    RunRequests requests(*records, site.connect.home);
    if (auto canceled = requests.cancel(run_name()); !canceled || !wait_) return canceled;
    ROCKHOPPER_TRY(auto reader, BoardReader::create(records->connection(), site.connect.home));
    for (;;) {
      ROCKHOPPER_TRY(auto board, reader->read());
      const dag::RunSlot* run = find_run(board, run_name());
      if (run == nullptr || has_ended(run->phase)) return {};
      ROCKHOPPER_TRY(records->connection().turn_for(kLookNs));
    }
  }

  bool wait_ = false;
};

class DropCommand final : public RunCommand {
 public:
  explicit DropCommand(const OptionSet& app)
      : RunCommand(app, "drop", "Forgets a run that has ended.") {
    add_connection();
  }

 private:
  [[nodiscard]] Expected<void> execute(const Site& site) override {
    ROCKHOPPER_TRY(auto records, open_records(site));
    ROCKHOPPER_TRY(auto reader, BoardReader::create(records->connection(), site.connect.home));
    ROCKHOPPER_TRY(auto board, reader->read());
    const dag::RunSlot* run = find_run(board, run_name());
    if (run != nullptr) return RunRequests(*records, site.connect.home).drop(*run);
    return fail(ErrorCode::not_found, "the run was not dropped: there is no such run");
  }
};

}  // namespace

void add_run_commands(const OptionSet& app, Commands& commands) {
  commands.push_back(std::make_unique<StatusCommand>(app));
  commands.push_back(std::make_unique<CancelCommand>(app));
  commands.push_back(std::make_unique<DropCommand>(app));
}

}  // namespace rockhopper::apps::dag_node
