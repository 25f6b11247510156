// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/services/dag/application.h"
#include "apps/services/dag/graph/graph.h"
#include "apps/services/dag/schedule/board_writer.h"
#include "apps/services/dag/schedule/deque.h"
#include "apps/services/dag/schedule/home_counters.h"
#include "apps/services/dag/schedule/home_request.h"
#include "apps/services/dag/schedule/run.h"
#include "apps/services/dag/schedule/worker_table.h"
#include "apps/services/dag/store.h"

namespace rockhopper::dag {

struct HomeConfig {
  BoardLayout board;
  GraphLimits limits{.key_bytes = 200};
  /// Nodes of each run that one turn looks at, when all of a run have to be; 1 or more.
  std::uint32_t slice = 4096;
};

/// What a home tells. Called from progress(); must not call the home, but for decide().
class HomeListener {
 public:
  HomeListener() = default;
  HomeListener(const HomeListener&) = delete;
  HomeListener& operator=(const HomeListener&) = delete;
  virtual ~HomeListener() = default;
  /// A graph to be examined, by parse_image(), at once or on another thread: decide() takes what it
  /// comes to.
  virtual void on_submitted(RunId run, std::vector<std::byte> image) = 0;
  virtual void on_run_changed(RunId /*run*/, RunPhase /*phase*/) {}
};

/// Where runs are at home: keeps the records of their nodes in the server's store, shows runs and
/// workers on the board, and puts right what lost workers have left (DG-36). It takes no part in
/// the scheduling itself: workers claim, release and steal among themselves (DG-39).
///
/// When a worker is lost, the server has fenced it first: nothing of it is executed any more. What
/// it was running is pending again, with the next attempt, unless too many workers were lost that
/// ran it: then its run fails, as it may be what ends them. Of what it had done and not released,
/// nobody can tell which successors had been told; so for each of them the dependencies are
/// reckoned anew from the states of its predecessors, exactly, because all atomics are executed by
/// the thread that reckons. A predecessor that a living worker has done and not yet released is
/// waited for. All ready nodes go into the pool, once more perhaps, which does no harm.
///
/// Belongs to the engine's thread.
class Home final : public ServerApplication {
 public:
  /// All must outlive it. `board` is the application memory of the server, config.board.bytes()
  /// long, aligned to 64. The home has to be the server's application.
  [[nodiscard]] static Expected<std::unique_ptr<Home>> create(Store& store,
                                                              std::span<std::byte> board,
                                                              HomeListener& listener,
                                                              const HomeConfig& config);
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;
  ~Home() override;

  /// The graph of a run that was submitted, or why it is refused. Without effect if the run has
  /// been canceled meanwhile.
  void decide(RunId run, Expected<Graph> graph);
  /// As a client's submit; the graph has been checked. Fails if there is no slot, the name is taken
  /// or not good, or a number is out of range.
  [[nodiscard]] Expected<RunId> submit(std::string_view name, Graph graph, std::uint32_t priority,
                                       const RunAttempts& attempts);

  /// One turn. True if there was something to do.
  bool progress(std::uint64_t now_ns);
  /// When progress() has something to do if nothing else happens.
  [[nodiscard]] std::uint64_t next_deadline_ns() const { return next_turn_ns_; }

  /// Views are good until the next call of anything else.
  struct RunStatus {
    RunId id{};
    std::string_view name;
    RunPhase phase = RunPhase::none;
    std::uint32_t nodes = 0;
    std::uint64_t completed = 0;
    std::string_view text;
  };
  [[nodiscard]] std::vector<RunStatus> runs() const;
  [[nodiscard]] std::size_t worker_count() const { return workers_.size(); }
  [[nodiscard]] const HomeCounters& counters() const { return counters_; }
  /// Any thread.
  void visit_counters(stack::CounterVisitor visit, void* context) const {
    counters_.visit(visit, context);
  }
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(stack::CounterTextVisitor visit, void* context) {
    HomeCounters::describe(visit, context);
  }

  // ServerApplication.
  [[nodiscard]] ApplicationResponse on_request(ClientId client, const ApplicationRequest& request,
                                               std::uint64_t now_ns) override;
  void on_client_gone(ClientId client, std::uint64_t now_ns) override;

 private:
  /// A run, and what its listener has been told and not been told yet.
  struct Held {
    std::unique_ptr<Run> run;
    std::vector<std::byte> image;  ///< to be handed out
    bool submitted = false;        ///< there is one
    RunPhase told = RunPhase::none;
  };

  Home(Store& store, std::span<std::byte> board, HomeListener& listener, const HomeConfig& config);
  [[nodiscard]] Run* find(std::string_view name) const;
  /// A slot for a run with that name; `exists` or `exhausted`.
  [[nodiscard]] ApplicationResponse find_slot(std::string_view name);
  Run& add(std::uint32_t slot, std::string_view name, std::uint32_t priority,
           const RunAttempts& attempts);
  [[nodiscard]] bool name_is_resting(std::string_view name) const;

  // What clients ask.
  [[nodiscard]] ApplicationResponse submit(ClientId client, const ApplicationRequest& request);
  [[nodiscard]] ApplicationResponse cancel(const ApplicationRequest& request);
  [[nodiscard]] ApplicationResponse drop(const ApplicationRequest& request, std::uint64_t now_ns);
  [[nodiscard]] ApplicationResponse join(ClientId client, const ApplicationRequest& request);
  [[nodiscard]] ApplicationResponse leave(ClientId client, const ApplicationRequest& request);
  [[nodiscard]] ApplicationResponse node_failed(ClientId client, const ApplicationRequest& request);
  [[nodiscard]] Run* find(const ApplicationRequest& request);

  void on_worker_gone(std::optional<std::uint32_t> lost);
  void hand_out(Held& held);
  void tell(Held& held);
  bool fill_pool();

  Store& store_;
  HomeListener& listener_;
  HomeConfig config_;
  HomeCounters counters_;
  BoardWriter board_;
  Deques pool_;
  WorkerTable workers_;
  std::vector<Held> runs_;  ///< by slot
  std::uint64_t next_id_ = 1;
  std::uint32_t next_slot_ = 0;  ///< whose ready nodes come first, that all runs have their turn
  std::uint64_t next_turn_ns_ = 0;
};

}  // namespace rockhopper::dag
