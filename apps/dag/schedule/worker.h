// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/dag/client.h"
#include "apps/dag/graph/task.h"
#include "apps/dag/schedule/board.h"

namespace rockhopper::dag {

struct WorkerConfig {
  std::string name = "worker";         ///< for people, 1 to 31 printable characters
  std::vector<std::uint32_t> labels;   ///< it runs nodes with an affinity to these (edge.h)
  std::uint16_t window = 32;           ///< nodes that it has at a time, 1 to 1024
  std::uint32_t deque_entries = 1024;  ///< of each class of priority, a power of 2
  std::uint16_t steal_max = 16;        ///< nodes at a time from another worker; half of what it has
  std::uint16_t pool_max = 16;         ///< nodes at a time from the pool
  bool steals = true;                  ///< from other workers; the pool is for everybody
  std::uint64_t arena_bytes = 1 << 20;    ///< asked of a server for outputs at a time, at least
  std::uint64_t idle_min_ns = 5'000;      ///< between looks for work, doubled in vain
  std::uint64_t idle_max_ns = 1'000'000;  ///< up to this
  std::uint64_t board_ns = 5'000'000;     ///< between looks at the board while busy
  std::uint64_t seed = 1;                 ///< of the choice of victims
  std::uint16_t dcis = 8;                 ///< victims reached at a time
};

/// Runs the tasks of a node (DG-2), at once or on another thread.
class NodeExecutor {
 public:
  struct Job {
    std::uint64_t ticket = 0;  ///< for Worker::complete()
    std::string_view key;      ///< of the node, without the run's name
    std::span<const Task> tasks;
    std::span<const TaskInput> inputs;  ///< of the predecessors by data, in the order of keys
  };
  NodeExecutor() = default;
  NodeExecutor(const NodeExecutor&) = delete;
  NodeExecutor& operator=(const NodeExecutor&) = delete;
  virtual ~NodeExecutor() = default;
  /// What the job names stays until complete(). False: not now; it is offered again next turn.
  /// complete() may be called from within.
  [[nodiscard]] virtual bool start(const Job& job) = 0;
  /// The ticket's result is not wanted any more (canceled run, lost worker): complete() is harmless
  /// and may be early. What the job names stays until then all the same.
  virtual void abandon(std::uint64_t /*ticket*/) {}
};

/// One node that was run, told when its end is decided.
struct NodeReport {
  std::string_view run;
  std::string_view key;
  std::uint64_t start_ns = 0;  ///< as complete() was told
  std::uint64_t end_ns = 0;
  bool stolen = false;         ///< from another worker
  std::uint32_t attempts = 1;  ///< how often it was begun, this time included
  bool committed = false;      ///< false: another one runs it, or the run has ended
};

class WorkerListener {
 public:
  WorkerListener() = default;
  WorkerListener(const WorkerListener&) = delete;
  WorkerListener& operator=(const WorkerListener&) = delete;
  virtual ~WorkerListener() = default;
  virtual void on_node(const NodeReport& /*report*/) {}
  /// It could join no longer or again, or the home's connection is lost: nothing that it had will
  /// count. A new Worker can be made once the client has been connected anew.
  virtual void on_lost(Status why) = 0;
};

/// Takes ready nodes from its own deques, the pool and other workers, and runs them (DG-10 to
/// DG-13): claims by CAS, reads the inputs, has the executor run the tasks, writes the output, and
/// only then releases the successors (DG-34, DG-35, DG-37). Whom it steals from takes no notice
/// (DG-39).
///
/// Belongs to the engine's thread. `client` is connected to the home, server `home`, and to all
/// servers that outputs may be at; its listener passes results of contexts with kContext set to
/// on_result(), and a lost home to on_server_lost().
class Worker {
 public:
  static constexpr std::uint64_t kContext = std::uint64_t{1} << 63;

  /// All must outlive it. `gid` is its own; outputs go where `outputs` says by the node's key, to
  /// one of the client's servers.
  struct Init {
    roce::Engine& engine;
    dc::Endpoint& endpoint;
    Client& client;
    std::uint16_t home = 0;
    roce::AddressVector home_av;
    Grant grant;  ///< of the home
    Placement outputs;
    NodeExecutor& executor;
    WorkerListener& listener;
  };
  [[nodiscard]] static Expected<std::unique_ptr<Worker>> create(const Init& init,
                                                                const WorkerConfig& config);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  /// The result of a job: its output, or an error (the node is tried again, by anybody, or the run
  /// fails). The output is copied. Times are of a clock that all workers share, ns.
  void complete(std::uint64_t ticket, Expected<std::span<const std::byte>> output,
                std::uint64_t start_ns, std::uint64_t end_ns);
  /// Takes nothing more; is done when idle().
  void drain();
  /// It has no node, and nothing is under way.
  [[nodiscard]] bool idle() const;
  /// Tells the home that it goes. What it still has is put back.
  void leave();

  void on_result(const Result& result);
  void on_server_lost(std::uint16_t server);

  /// One turn. True if there was something to do.
  bool progress(std::uint64_t now_ns);
  [[nodiscard]] std::uint64_t next_deadline_ns() const;

  struct RunView {
    std::uint64_t id = 0;
    std::string_view name;
    RunPhase phase = RunPhase::none;
    std::uint32_t nodes = 0;
    std::uint64_t completed = 0;
  };
  /// As the board showed them last.
  [[nodiscard]] std::vector<RunView> runs() const;
  [[nodiscard]] std::size_t peer_count() const;
  /// Any thread.
  void visit_counters(void (*visit)(void* context, const char* name, std::uint64_t value),
                      void* context) const;
};

}  // namespace rockhopper::dag
