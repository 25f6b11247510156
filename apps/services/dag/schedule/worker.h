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

#include "apps/services/dag/client.h"
#include "apps/services/dag/schedule/board_view.h"
#include "apps/services/dag/schedule/home_request.h"
#include "apps/services/dag/schedule/lease_keeper.h"
#include "apps/services/dag/schedule/node_executor.h"
#include "apps/services/dag/schedule/pool_taker.h"
#include "apps/services/dag/schedule/thief.h"
#include "apps/services/dag/schedule/worker_counters.h"
#include "apps/services/dag/schedule/worker_ids.h"
#include "apps/services/dag/schedule/worker_listener.h"
#include "dc/owned.h"
#include "roce/owned.h"
#include "roce/receive_buffers.h"

namespace rockhopper::dag {

class AttemptTable;
struct Workplace;

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

/// Takes ready nodes from its own deques, the pool and other workers, and runs them (DG-10 to
/// DG-13): claims by CAS, reads the inputs, has the executor run the tasks, writes the output, and
/// only then releases the successors (DG-34, DG-35, DG-37). Whom it steals from takes no notice
/// (DG-39).
///
/// This class joins its parts: it decides in each turn what is looked at, begun and started. A
/// node's way is NodeAttempt's affair.
///
/// Belongs to the engine's thread. `client` is connected to the home, server `home`, and to all
/// servers that outputs may be at; its listener passes results of contexts with kContext set to
/// on_result(), and a lost home to on_server_lost().
class Worker final : private ThiefListener {
 public:
  static constexpr std::uint64_t kContext = AskContext::kBit;

  /// All must outlive it. Outputs go where `outputs` says by the node's key, to one of the client's
  /// servers.
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
  ~Worker() override;

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
  /// Returns false if runs() may lack some.
  [[nodiscard]] bool has_seen_board() const { return board_->proved().has_value(); }
  /// As the board showed them last.
  [[nodiscard]] std::vector<RunView> runs() const;
  /// Any thread.
  void visit_counters(stack::CounterVisitor visit, void* context) const {
    counters_.visit(visit, context);
  }
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(stack::CounterTextVisitor visit, void* context) {
    WorkerCounters::describe(visit, context);
  }
  [[nodiscard]] const WorkerCounters& counters() const { return counters_; }

 private:
  Worker(const Init& init, const WorkerConfig& config);
  [[nodiscard]] Expected<void> set_up();

  // Taking part.
  [[nodiscard]] Started ask(HomeRequest request, AskKind kind, std::span<const std::byte> data);
  void join();
  void ask_to_leave();
  void tell_loss();

  // What the home's link and the record store answer.
  void poll_home();
  void on_completion(std::uint64_t wr_id);

  // The board.
  void look(bool runs);
  void on_board(BoardView::Seen seen);
  void follow_runs();
  void add_completed();

  // Looking for work, and taking it.
  [[nodiscard]] bool can_take() const;
  [[nodiscard]] bool can_claim() const;
  [[nodiscard]] bool is_hungry();
  void seek();
  [[nodiscard]] bool begin(const DequeEntry& entry, unsigned priority,
                           std::optional<unsigned> theft, unsigned number);
  void claim_ready();
  void put_aside(const ReadyNodes::Ready& ready);
  void on_entries(unsigned attempt, unsigned priority, std::span<const DequeEntry> entries,
                  std::uint64_t takeable) override;

  // The executor's side.
  void start_prepared();
  void take_back_surplus();

  Init init_;
  WorkerConfig config_;
  WorkerCounters counters_;
  roce::OwnedPd pd_;
  LocalMemory board_memory_;
  LocalMemory pool_memory_;
  LocalMemory deque_memory_;
  LocalMemory unread_;  ///< what FETCH_ADDs find that nobody asks for
  std::unique_ptr<roce::ReceiveBuffers> receives_;
  std::unique_ptr<Workplace> at_;  ///< refers to what stands behind it
  std::unique_ptr<AttemptTable> attempts_;
  std::unique_ptr<HomeLink> home_;
  std::unique_ptr<BoardView> board_;
  std::unique_ptr<PoolTaker> pool_;
  std::unique_ptr<Thief> thief_;
  LeaseKeeper lease_;
  dc::Owned<dc::Dct> dct_;  ///< through which other workers reach the deques
  std::uint64_t next_look_ns_ = 0;
  bool seeks_ = false;  ///< it has too little to do
};

}  // namespace rockhopper::dag
