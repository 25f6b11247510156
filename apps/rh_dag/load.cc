// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/progress.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "apps/rh_dag/board_reader.h"
#include "apps/rh_dag/commands.h"
#include "apps/rh_dag/functions.h"
#include "apps/rh_dag/graph_source.h"
#include "apps/rh_dag/records.h"
#include "apps/rh_dag/run_digest.h"
#include "apps/rh_dag/run_requests.h"
#include "apps/services/dag/graph/digest_task.h"
#include "apps/services/dag/schedule/deque.h"
#include "apps/services/dag/schedule/home_request.h"

namespace rockhopper::apps::dag_node {
namespace {

/// Between looks at the board.
constexpr std::uint64_t kLoadLookNs = 2 * kNsPerMs;

struct LoadOptions {
  GraphSource source;
  std::string name;  ///< of the run; empty: the workflow's
  std::uint32_t priority = 1;
  dag::RunAttempts attempts;
  bool wait = false;
  bool drop = false;
  std::uint16_t window = 64;  ///< outputs that are read at a time
};

void add_load_options(const OptionSet& app, LoadOptions& options) {
  add_workflow_option(app, options.source);
  const OptionSet graph = app.group("Graph");
  graph.add_option(
      "--random SPEC", options.source.random,
      "instead of a file: a graph made by chance, as nodes=1000,seed=1,edges=2,"
      "width=0,bytes=32,work=10us; width: predecessors are among so many nodes before");
  graph.add_option("--digest-seed N", options.source.replay.seed, "of a workflow's digests");
  add_replay_options(graph, options.source,
                     "run the recorded commands instead; by workers that allow it");
  const OptionSet run = app.group("Run");
  run.add_option("--name RUN", options.name, "of the run. Default: the workflow's");
  run.add_option("--priority N", options.priority, "class of the run; 0 is the most urgent one")
      .range(0u, dag::kPriorityClasses - 1);
  run.add_option(
         "--attempts N", options.attempts.failed,
         "of each node, before its run fails; those of lost workers have a limit of their own")
      .range(1u, dag::kAttemptsMax);
  run.add_option("--lost-attempts N", options.attempts.lost,
                 "as many workers may be lost while they run the same node, which may be what ends "
                 "them, before its run fails")
      .range(1u, dag::kAttemptsMax);
  run.add_flag("--wait", options.wait,
               "until the run has ended; then read its outputs: the digest");
  run.add_flag("--drop", options.drop, "with --wait: forget the run then");
  run.add_option("--window N", options.window, "outputs that are read at a time").range(1, 4096);
  app.check([&options] {
    const bool drops_unread = options.drop && !options.wait;
    return refuse_if({{drops_unread, "--drop needs --wait"}});
  });
}

/// The graph that is to be run, and the run's name.
struct Loaded {
  dag::Graph graph;
  std::string run;
};

class Load {
 public:
  Load(const LoadOptions& options, const Loaded& loaded, const Site& site)
      : options_(options), loaded_(loaded), site_(site) {}

  [[nodiscard]] Expected<void> run() {
    ROCKHOPPER_TRY(connect());
    begin_ns_ = steady_now_ns();
    ROCKHOPPER_TRY(requests_->submit(
        loaded_.graph,
        {.name = loaded_.run, .priority = options_.priority, .attempts = options_.attempts}));
    ROCKHOPPER_TRY(wait_while([](dag::RunPhase phase) {
      return phase == dag::RunPhase::none || phase == dag::RunPhase::checking;
    }));
    checked_ns_ = steady_now_ns();
    auto result = options_.wait ? finish() : verdict();
    if (result) print();
    return result;
  }

  void close() {
    board_.reset();
    if (records_ == nullptr) return;
    records_->close();
    if (site_.connect.endpoint.stats_s > 0) records_->connection().print_statistics(stderr);
  }

 private:
  [[nodiscard]] Expected<void> connect() {
    ROCKHOPPER_TRY(auto placement, site_.connect.make_home_placement());
    ROCKHOPPER_TRY(records_, Records::open(site_.connect, site_.config, site_.arguments,
                                           std::move(placement), options_.window));
    requests_.emplace(*records_, site_.connect.home);
    return open_board();
  }

  [[nodiscard]] Expected<void> open_board() {
    board_.reset();
    ROCKHOPPER_TRY(board_, BoardReader::create(records_->connection(), site_.connect.home));
    return {};
  }

  /// A home that has fenced us is connected to again: it has the run still.
  [[nodiscard]] Expected<Board> read_board() {
    auto board = board_->read();
    if (board || board.error().code != ErrorCode::io) return board;
    ROCKHOPPER_TRY(records_->reconnect(site_.connect.home));
    ROCKHOPPER_TRY(open_board());
    return board_->read();
  }

  [[nodiscard]] Expected<void> look() {
    ROCKHOPPER_TRY(auto board, read_board());
    const dag::RunSlot* slot = find_run(board, loaded_.run);
    if (slot == nullptr) {
      return fail(ErrorCode::not_found, "run {} is not there any more", loaded_.run);
    }
    slot_ = *slot;
    return {};
  }

  template <typename Condition>
  [[nodiscard]] Expected<void> wait_while(const Condition& condition) {
    Progress progress("nodes");
    for (;;) {
      ROCKHOPPER_TRY(look());
      if (!condition(slot_.phase)) return {};
      progress.update(std::min<std::uint64_t>(slot_.completed, slot_.nodes), slot_.nodes);
      ROCKHOPPER_TRY(records_->connection().turn_for(kLoadLookNs));
    }
  }

  /// Of a run that goes on, or is complete.
  [[nodiscard]] Expected<void> verdict() const {
    const std::string_view text = dag::text_of(slot_.text);
    switch (slot_.phase) {
      case dag::RunPhase::running:
      case dag::RunPhase::complete:
        return {};
      case dag::RunPhase::refused:
        return fail(ErrorCode::invalid_argument, "run {} was refused: {}", loaded_.run, text);
      case dag::RunPhase::failed:
      case dag::RunPhase::ending:
        return fail(ErrorCode::invalid_state, "run {} has failed: {}", loaded_.run, text);
      default:
        return fail(ErrorCode::invalid_state, "run {} was {}", loaded_.run,
                    dag::to_string(slot_.phase));
    }
  }

  [[nodiscard]] Expected<void> finish() {
    ROCKHOPPER_TRY(wait_while([](dag::RunPhase phase) { return !has_ended(phase); }));
    ended_ns_ = steady_now_ns();
    ROCKHOPPER_TRY(verdict());
    {
      Progress progress("outputs");
      ROCKHOPPER_TRY(digest_,
                     read_digest(*records_, loaded_.graph, loaded_.run, [&](std::uint64_t done) {
                       progress.update(done, loaded_.graph.size());
                     }));
    }
    if (options_.drop) return requests_->drop(slot_);
    return {};
  }

  void print() const {
    const auto seconds = [](std::uint64_t from_ns, std::uint64_t to_ns) {
      return static_cast<double>(to_ns - from_ns) * 1e-9;
    };
    nlohmann::json json{{"program", "rh-dag"},
                        {"run", loaded_.run},
                        {"nodes", loaded_.graph.size()},
                        {"edges", loaded_.graph.edges()},
                        {"phase", dag::to_string(slot_.phase)},
                        {"load_seconds", seconds(begin_ns_, checked_ns_)}};
    if (digest_) {
      json["run_seconds"] = seconds(checked_ns_, ended_ns_);
      json["lost"] = slot_.lost;
      json["retried"] = slot_.retried;
      json["output_bytes"] = digest_->output_bytes;
      json["digest"] = dag::to_hex(digest_->digest);
    }
    if (site_.connect.json) {
      fmt::print("{}\n", json.dump());
    } else if (!digest_) {
      fmt::print("{}: {} tasks, {}\n", loaded_.run, loaded_.graph.size(),
                 dag::to_string(slot_.phase));
    } else {
      fmt::print("{}: {} tasks in {:.3f} s, {} bytes written, {} repeated\ndigest {}\n",
                 loaded_.run, loaded_.graph.size(), seconds(checked_ns_, ended_ns_),
                 digest_->output_bytes, slot_.lost + slot_.retried, dag::to_hex(digest_->digest));
    }
  }

  const LoadOptions& options_;
  const Loaded& loaded_;
  const Site& site_;
  std::unique_ptr<Records> records_;
  std::optional<RunRequests> requests_;
  std::unique_ptr<BoardReader> board_;
  dag::RunSlot slot_;
  std::uint64_t begin_ns_ = 0;
  std::uint64_t checked_ns_ = 0;
  std::uint64_t ended_ns_ = 0;
  std::optional<RunDigest> digest_;
};

class LoadCommand final : public ClientCommand {
 public:
  explicit LoadCommand(const OptionSet& app)
      : ClientCommand(app, "load", "Has a graph run by the workers of a home.") {
    add_load_options(options(), load_options_);
    add_connection(kSmallRecordMax);
  }

 private:
  [[nodiscard]] Expected<void> prepare() override {
    ROCKHOPPER_TRY(const auto functions, make_functions(Wait::sleep, &stop_requested));
    ROCKHOPPER_TRY(auto loaded, load_graph(load_options_.source, functions));
    const std::string& name = load_options_.name;
    loaded_ = Loaded{std::move(loaded.graph), name.empty() ? loaded.workflow.name : name};
    if (auto good = check_run_name(loaded_->run); !good) {
      return fail(good.error().code, "{}; give it another --name", good.error().message);
    }
    return {};
  }

  [[nodiscard]] Expected<void> execute(const Site& site) override {
    Load work(load_options_, *loaded_, site);
    auto result = work.run();
    work.close();
    return result;
  }

  LoadOptions load_options_;
  std::optional<Loaded> loaded_;
};

}  // namespace

void add_load_command(const OptionSet& app, Commands& commands) {
  commands.push_back(std::make_unique<LoadCommand>(app));
}

}  // namespace rockhopper::apps::dag_node
