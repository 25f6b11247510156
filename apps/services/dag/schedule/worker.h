// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/services/dag/client.h"
#include "apps/services/dag/graph/task.h"
#include "apps/services/dag/schedule/board.h"
#include "apps/services/dag/schedule/board_view.h"
#include "apps/services/dag/schedule/node_record.h"
#include "apps/services/dag/schedule/output_cache.h"
#include "apps/services/dag/schedule/thief.h"
#include "apps/services/dag/schedule/worker_counters.h"
#include "roce/receive_buffers.h"

namespace rockhopper::dag {

enum class AskKind : std::uint8_t;

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
  /// How many jobs it would take now.
  [[nodiscard]] virtual std::size_t room() const = 0;
  /// Only while there is room. What the job names stays until complete(), which may be called from
  /// within.
  virtual void start(const Job& job) = 0;
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
class Worker final : private ThiefListener {
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
  [[nodiscard]] std::size_t peer_count() const;
  /// Any thread.
  void visit_counters(void (*visit)(void* context, const char* name, std::uint64_t value),
                      void* context) const;
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(void (*visit)(void* context, const char* name, const char* text),
                                void* context);
  [[nodiscard]] const WorkerCounters& counters() const { return counters_; }

 private:
  enum class Stage : std::uint8_t;
  struct Slot;
  struct Arena;
  struct Run;
  struct Theft;
  struct Ready;
  struct Delayed;
  struct Prepared;

  Worker(const Init& init, const WorkerConfig& config);
  [[nodiscard]] Expected<void> set_up();
  [[nodiscard]] bool stopped() const { return lost_ || leaving_; }

  // worker_join.cc: joining, leaving, being lost.
  void join();
  void ask_to_leave();
  void lose(Status why);

  // worker.cc: results, the executor, and the turn.
  [[nodiscard]] std::uint64_t context(AskKind kind, std::uint32_t which,
                                      std::uint32_t number = 0) const;
  void poll_home();
  void on_completion(std::uint64_t wr_id);
  [[nodiscard]] bool retry_slots();
  [[nodiscard]] std::uint64_t patience_ns() const;
  [[nodiscard]] std::size_t wanted_ahead() const;
  [[nodiscard]] bool start_prepared();
  void take_back_surplus();

  // worker_board.cc: what the board says, the pool, and looking for work.
  void look(bool runs);
  void on_board(BoardView::Seen seen);
  void follow_runs();
  void forget_run(std::uint8_t run);
  void hold_lease();
  [[nodiscard]] bool is_wanted(const Slot& slot) const;
  [[nodiscard]] bool hungry();
  void look_at_pool();
  void on_pool();
  void seek();
  void found_work();

  // worker_claim.cc: ready nodes, and which of them this worker gets.
  void push_ready(unsigned priority, const DequeEntry& entry);
  void set_aside(unsigned priority, const DequeEntry& entry);
  void refill_deques();
  [[nodiscard]] const Run* run_of(const DequeEntry& entry) const;
  [[nodiscard]] bool is_of_ended_run(const DequeEntry& entry) const;
  [[nodiscard]] std::optional<DequeEntry> pop_ready(unsigned& priority);
  [[nodiscard]] bool can_claim() const;
  [[nodiscard]] bool can_take() const;
  [[nodiscard]] bool claim_ready();
  [[nodiscard]] bool label_fits(std::uint32_t label) const;
  [[nodiscard]] bool has_label(std::uint32_t affinity) const;
  [[nodiscard]] Slot* take_slot();
  void free_slot(Slot& slot);
  [[nodiscard]] bool begin(const DequeEntry& entry, unsigned priority, int theft, unsigned number);
  void on_entries(unsigned attempt, unsigned priority, std::span<const DequeEntry> entries,
                  std::uint64_t takeable) override;
  void on_empty_handed(unsigned attempt) override;
  enum class Fate : std::uint8_t { won, gone, left };
  void decide(Slot& slot, Fate fate);
  void settle(unsigned attempt);

  // worker_node.cc: a node's way to the executor.
  void enter(Slot& slot, Stage stage);
  void step(Slot& slot);
  void later(Slot& slot);
  [[nodiscard]] bool post(Slot& slot);
  void done(Slot& slot);
  [[nodiscard]] bool post_record(Slot& slot, bool claim);
  void on_looked(Slot& slot);
  [[nodiscard]] bool post_trace(Slot& slot);
  void on_traced(Slot& slot);
  void on_claimed(Slot& slot);
  [[nodiscard]] bool parse_record(Slot& slot);
  [[nodiscard]] bool is_in_run(const Slot& slot, const NodeLink& link) const;
  void begin_inputs(Slot& slot);
  [[nodiscard]] bool post_places(Slot& slot);
  [[nodiscard]] bool post_inputs(Slot& slot);
  void on_inputs(Slot& slot);
  void prepare(Slot& slot);
  void fail_node(Slot& slot, std::string text);
  [[nodiscard]] bool post_failure(Slot& slot);

  // worker_commit.cc: its output, and what it makes ready.
  [[nodiscard]] bool post_output(Slot& slot);
  void ask_arena(Slot& slot, Arena& arena, std::uint16_t server, std::uint64_t bytes);
  void on_arena(std::uint32_t run, std::uint32_t number, const Result& result);
  void on_stored(Slot& slot, const Result& result);
  void begin_commit(Slot& slot);
  [[nodiscard]] bool post_commit(Slot& slot);
  [[nodiscard]] bool post_successors(Slot& slot);
  void on_successors(Slot& slot);
  void make_ready(Slot& slot, const NodeLink& link, std::uint32_t label);
  [[nodiscard]] std::uint32_t label_of(const NodeView& view, NodeIndex finished) const;
  [[nodiscard]] bool post_directed(Slot& slot);
  void on_directed(Slot& slot);
  void go_on(Slot& slot);
  void wait(Slot& slot);
  [[nodiscard]] bool wake_delayed();
  [[nodiscard]] bool post_release(Slot& slot);
  void on_released(Slot& slot);
  void add_completed();
  void give_back(Slot& slot);
  void give_up(Slot& slot);
  [[nodiscard]] bool post_return(Slot& slot);
  void on_returned(Slot& slot);
  void report(const Slot& slot, bool committed);

  Init init_;
  WorkerConfig config_;
  Client& client_;
  std::uint32_t me_;
  roce::ProtectionDomain pd_;
  WorkerCounters counters_;

  std::unique_ptr<HomeLink> home_;
  std::unique_ptr<LocalMemory> board_memory_;
  std::unique_ptr<LocalMemory> pool_memory_;
  std::unique_ptr<LocalMemory> deque_memory_;
  std::unique_ptr<roce::ReceiveBuffers> receives_;
  dc::Dct* dct_ = nullptr;
  std::unique_ptr<BoardView> board_;
  std::unique_ptr<Thief> thief_;
  std::optional<Deques> deques_;
  OutputCache cache_;

  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::uint32_t> retry_;     ///< slots that have something to post
  std::vector<std::uint32_t> retrying_;  ///< the same, while they are gone through
  std::vector<Prepared> prepared_;       ///< a heap: the most urgent one is the first
  std::vector<Ready> overflow_;          ///< ready nodes without room in the deques
  std::array<std::uint64_t, kPriorityClasses> set_aside_{};  ///< in a row
  std::vector<Run> runs_;                                    ///< by slot of the board
  std::vector<Theft> thefts_;                                ///< by attempt
  std::vector<Delayed> delayed_;                             ///< a heap
  NodeView scratch_;                                         ///< of other nodes' records

  std::size_t active_ = 0;         ///< slots that the window counts
  std::size_t ahead_ = 0;          ///< of these, on their way to the executor
  std::size_t in_slots_ = 0;       ///< slots that are not free
  std::size_t asked_ = 0;          ///< operations of the client under way, but for those of slots
  std::size_t jobs_ = 0;           ///< slots whose node the executor has
  std::uint64_t executor_ns_ = 0;  ///< since then its room is the same
  std::uint64_t run_ns_ = 0;       ///< that a job takes, about
  std::uint64_t prepare_ns_ = 0;   ///< likewise from a claim to being prepared

  bool pool_busy_ = false;
  unsigned pool_priority_ = 0;
  std::uint64_t pool_top_ = 0;
  std::uint64_t pool_count_ = 0;

  std::optional<std::uint64_t> held_;  ///< the lease, since then
  std::uint64_t next_look_ns_ = 0;
  std::uint64_t next_seek_ns_ = 0;
  std::uint64_t idle_ns_ = 0;
  std::size_t vain_ = 0;  ///< attempts since something was found
  std::uint64_t now_ns_ = 0;
  bool seeking_ = false;  ///< it has too little to do
  bool joining_ = false;
  bool joined_ = false;
  bool draining_ = false;
  bool leaving_ = false;
  bool left_ = false;
  bool lost_ = false;
  bool lost_told_ = false;
  bool moved_ = false;  ///< in this turn
  Status lost_why_ = Status::ok;
};

}  // namespace rockhopper::dag
