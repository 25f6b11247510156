// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "roce/engine.h"
#include "tests/sim/atomic_history.h"
#include "tests/sim/memory_windows.h"
#include "tests/sim/node_memory.h"
#include "tests/sim/rng.h"
#include "tests/sim/shared_receives.h"

namespace rockhopper::sim {

/// What the queue pairs of a run are like and what is asked of them; drawn from the seed.
struct RcSettings {
  roce::PathMtu path_mtu = roce::PathMtu::mtu_1024;
  std::uint32_t ops = 30;  ///< each channel
  std::uint32_t max_message = 4096;
  std::uint32_t target_size = 8192;
  std::uint32_t send_depth = 16;
  std::uint32_t recv_depth = 16;
  std::uint32_t max_send_sge = 1;
  std::uint32_t max_recv_sge = 1;
  std::uint32_t max_inline = 64;
  bool sq_sig_all = false;
  unsigned signal_percent = 50;
  unsigned read_percent = 20;
  unsigned atomic_percent = 20;
  unsigned placement_percent = 10;    ///< of the other requests: ATOMIC WRITE and FLUSH
  unsigned local_percent = 5;         ///< of the other requests: fast registration, invalidate
  unsigned window_percent = 0;        ///< binds and the like; and uses of a window where one fits
  bool extended_atomics = false;      ///< half of the atomics are masked ones
  unsigned shared_percent = 30;       ///< of the atomics: on words that all channels change
  unsigned late_receive_percent = 0;  ///< that a receive is put off at an opportunity
  std::uint8_t max_rd_atomic = 4;
  std::uint8_t max_dest_rd_atomic = 4;
  std::uint8_t timeout = 8;
  std::uint8_t retry_cnt = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 1;
  roce::RecoveryConfig recovery{};
  bool fatal_request = false;  ///< the first channel ends with a request that must fail
  bool nak_may_be_lost = false;
  bool drain = false;  ///< the queue pairs are drained and resumed now and then
};

/// One end of a connection.
struct Endpoint {
  roce::Engine* engine = nullptr;
  roce::QueuePair* qp = nullptr;
  roce::ProtectionDomain pd;
  NodeMemory* memory = nullptr;
  /// Where its receives are; none: in the queue pair. Of XRC, each message names one.
  std::vector<SharedReceives*> receives;
  std::vector<SharedReceives*> unreachable;  ///< XRC: of another domain
  MemoryWindows* windows = nullptr;          ///< may be null
};

/// A word that many change.
struct SharedWord {
  std::uint64_t address = 0;  ///< for requests
  std::uint64_t* word = nullptr;
  bool swaps = false;  ///< compare-and-swap; else increments
  AtomicHistory history = AtomicHistory(0);
};
struct SharedWords {
  roce::MemoryKey key{};
  std::vector<SharedWord> words;
};

/// What a run has asked for, to be compared with the engines' counters.
struct ChannelTotals {
  std::uint64_t sends = 0;
  std::uint64_t writes = 0;
  std::uint64_t reads = 0;
  std::uint64_t atomics = 0;
  std::uint64_t atomic_writes = 0;
  std::uint64_t flushes = 0;
  std::uint64_t local = 0;  ///< no packet carries them
  std::uint64_t receives = 0;
  std::uint64_t bytes = 0;
  std::uint64_t refused = 0;  ///< because of what the owner of a window did
};

/// One direction of a connection: the requests that one queue pair posts, the receives that the
/// other posts for them, and a model of both memories. Requests of a channel take effect in the
/// order in which they are posted, so that the model executes each when posting it.
class RcChannel {
 public:
  RcChannel(const RcSettings& settings, std::uint32_t id, const Endpoint& requester,
            const Endpoint& responder, SharedWords& shared, Rng& rng);

  /// Posts the next request if there is room. False: nothing was posted.
  bool post_request();
  /// The request that must be refused, and some behind it that must have no effect. `others` are
  /// windows of the responder's node that are not for this connection; may be null.
  void post_fatal(MemoryWindows* others);
  /// Requests by a window that its owner is about to end: each is executed or refused.
  void post_revocable(MemoryWindows::Window& window);
  /// Ends a window of its own requester, which the peer may be using.
  void post_revocation(MemoryWindows::Window& window);
  /// To its own queue pair; the run posts what is shared.
  bool post_receive();
  [[nodiscard]] std::uint32_t draw_length(std::uint32_t limit);

  void on_send_completion(const roce::Completion& completion);
  void on_recv_completion(const roce::Completion& completion);

  [[nodiscard]] bool owns_send(std::uint64_t wr_id) const { return wr_id >> 32 == 2ull * id_; }
  [[nodiscard]] bool owns_recv(const roce::Completion& completion) const {
    return find_destination(completion) != nullptr;
  }

  [[nodiscard]] bool all_posted() const { return posted_ >= settings_.ops; }
  [[nodiscard]] bool idle() const;
  [[nodiscard]] bool broken() const { return broken_; }
  [[nodiscard]] std::size_t outstanding() const { return requests_.size() + receives_.size(); }
  void allow_failure() { allow_failure_ = true; }
  /// Takes the memory as it is where a failed connection leaves it open.
  void accept_unknown();

  [[nodiscard]] const Endpoint& requester() const { return requester_; }
  [[nodiscard]] const Endpoint& responder() const { return responder_; }
  [[nodiscard]] const ChannelTotals& totals() const { return totals_; }
  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] std::string describe() const;

 private:
  struct Request {
    std::uint64_t wr_id = 0;
    std::uint32_t number = 0;
    roce::WrOpcode opcode = roce::WrOpcode::send;
    std::uint32_t length = 0;
    std::uint32_t target = 0;  ///< offset in the target area
    std::uint32_t destination = 0;
    MemoryWindows::Window* window = nullptr;  ///< that it goes through, or changes
    bool signalled = false;
    bool phantom = false;  ///< must have no effect
    bool may_be_refused = false;
    std::optional<roce::WcStatus> must_fail;
    std::optional<std::uint32_t> receive;  ///< index of the receive that it takes
    std::optional<ScatterBuffer> landing;
    bool landing_lent = false;         ///< a later request sends from it and frees it
    std::vector<std::uint8_t> result;  ///< what the landing must hold
    SharedWord* shared = nullptr;
    std::uint64_t compare = 0, swap = 0;
  };
  /// What the peer's next receive must get.
  struct Expected {
    roce::WrOpcode opcode = roce::WrOpcode::send;
    std::uint32_t request = 0;
    std::uint32_t length = 0;
    std::uint32_t target = 0;
    std::uint32_t imm = 0;
    roce::MemoryKey invalidated{};
    MemoryWindows::Window* window = nullptr;  ///< that is invalidated
    std::vector<std::uint8_t> data;
  };
  /// Where requests can go: the responder, or each SRQ that XRC lets them name.
  struct Destination {
    SharedReceives* receives = nullptr;  ///< null: those of the queue pair
    roce::MemoryRegion target;           ///< the target area, in this receiver's domain
    std::deque<Expected> expected;       ///< from receive number `received` on
    std::uint32_t claimed = 0;           ///< receives that requests have been given
    std::uint32_t received = 0;
  };

  void fail(std::string text);
  void make_destinations();
  [[nodiscard]] const Destination* find_destination(const roce::Completion& completion) const;
  [[nodiscard]] Request next_request() const {
    return {.wr_id = 2ull * id_ << 32 | posted_, .number = posted_};
  }
  [[nodiscard]] bool build(Request& request, roce::SendWr& wr);
  [[nodiscard]] bool build_send(Request& request, roce::SendWr& wr);
  [[nodiscard]] bool build_write(Request& request, roce::SendWr& wr);
  [[nodiscard]] bool build_placement(Request& request, roce::SendWr& wr);
  void build_local(Request& request, roce::SendWr& wr);
  [[nodiscard]] bool build_window(Request& request, roce::SendWr& wr);
  void set_invalidated_key(Request& request, roce::SendWr& wr);
  void aim(Request& request, roce::SendWr& wr, std::uint32_t right, std::uint32_t alignment);
  void spoil(Request& request, roce::SendWr& wr);
  [[nodiscard]] bool spoil_xrc(Request& request, roce::SendWr& wr);
  [[nodiscard]] bool spoil_window(Request& request, roce::SendWr& wr, MemoryWindows* others);
  [[nodiscard]] bool spoil_bind(Request& request, roce::SendWr& wr);
  [[nodiscard]] bool build_read(Request& request, roce::SendWr& wr);
  [[nodiscard]] bool build_atomic(Request& request, roce::SendWr& wr);
  void build_private_atomic(Request& request, roce::SendWr& wr);
  void build_shared_atomic(Request& request, roce::SendWr& wr);
  void gather(const Request& request, roce::SendWr& wr);
  [[nodiscard]] bool borrow_landing(Request& request, roce::SendWr& wr);
  void expect_receive(Request& request, roce::SendWr& wr);
  [[nodiscard]] const Receive* next_receive() const;
  [[nodiscard]] std::optional<Receive> take_receive(Destination& from, std::uint64_t wr_id);
  void release(const Destination& from, const Receive& receive);
  void fence_if_needed(const Request& request, roce::SendWr& wr) const;
  void write_model(const Request& request, std::span<const std::uint8_t> data);
  void submit(Request&& request, roce::SendWr& wr);
  void retire(Request& request);
  void check_result(const Request& request);
  void check_target(std::uint32_t number, std::uint32_t target, std::uint32_t length);
  void on_window_done(const Request& request);
  void release(const ScatterBuffer& landing);
  void on_failed(const roce::Completion& completion);
  void on_first_failure(const roce::Completion& completion);
  void check_completion(const Request& request, const roce::Completion& completion);
  void check_received(const Destination& destination, const Receive& receive,
                      const roce::Completion& completion);
  void check_invalidated(const Expected& expected, const roce::Completion& completion);

  const RcSettings& settings_;
  std::uint32_t id_;
  Endpoint requester_;
  Endpoint responder_;
  SharedWords& shared_;
  Rng& rng_;

  Area source_, landing_, target_, receive_;
  roce::MemoryRegion fast_;  ///< the source once more, by a fast region that comes and goes
  bool fast_valid_ = false;  ///< as far as requests have been posted
  RangeAllocator landing_ranges_, receive_ranges_;
  std::vector<std::uint32_t> last_writer_;  ///< number of the request, by byte of the target

  std::uint32_t posted_ = 0;
  std::uint32_t unsignalled_run_ = 0;
  std::deque<Request> requests_;    ///< not known to be complete
  std::vector<std::uint8_t> data_;  ///< what the request being built sends
  std::vector<roce::Sge> sges_;
  std::vector<std::uint8_t> inline_copy_;

  std::vector<Destination> destinations_;
  std::deque<Receive> receives_;  ///< of the queue pair, from the next to complete on
  std::uint32_t receives_posted_ = 0;

  bool allow_failure_ = false;
  bool broken_ = false;          ///< a request has failed
  bool receive_broken_ = false;  ///< a receive has been flushed
  bool fatal_ = false;           ///< what fails leaves the target as the model has it
  ChannelTotals totals_;
  std::string error_;
};

}  // namespace rockhopper::sim
