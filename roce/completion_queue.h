// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include <boost/intrusive/list.hpp>

#include "roce/types.h"
#include "roce/wire/qpn.h"
#include "stack/error.h"

namespace rockhopper::roce {

/// Completion statuses; names and order as in enum ibv_wc_status, but for the last three.
enum class WcStatus : std::uint8_t {
  success,
  loc_len_err,
  loc_qp_op_err,
  loc_eec_op_err,
  loc_prot_err,
  wr_flush_err,
  mw_bind_err,
  bad_resp_err,
  loc_access_err,
  rem_inv_req_err,
  rem_access_err,
  rem_op_err,
  retry_exc_err,
  rnr_retry_exc_err,
  loc_rdd_viol_err,
  rem_inv_rd_req_err,
  rem_abort_err,
  inv_eecn_err,
  inv_eec_state_err,
  fatal_err,
  resp_timeout_err,
  general_err,
  /// Ours: a dynamic connection was lost, and the peer may have executed the request or not.
  outcome_unknown,
  // Ours too (docs/locks.md). The queue pair goes on, and they are reported of signaled requests
  // only.
  lock_failed,   ///< the lock was not granted, or was lost before its release
  lock_flushed,  ///< not executed, as the lock of its scope was not granted or lost
};
[[nodiscard]] std::string_view to_string(WcStatus status);

enum class WcOpcode : std::uint8_t {
  send,
  rdma_write,
  rdma_read,
  comp_swap,
  fetch_add,
  recv,
  recv_rdma_with_imm,
  local_inv,
  bind_mw,
  reg_mr,
  flush,
  atomic_write,
  masked_comp_swap,
  masked_fetch_add,
  lock_acquire,
  lock_release,
  lock_cancel,
};
[[nodiscard]] std::string_view to_string(WcOpcode opcode);

enum WcFlags : std::uint16_t {
  kWcWithImm = 1u << 0,
  kWcWithInv = 1u << 1,
  kWcGrh = 1u << 2,  ///< kGrhBytes come before the payload
};

/// A work completion, as ibv_wc. On an error only wr_id, status and qp_num are meaningful.
struct Completion {
  std::uint64_t wr_id = 0;
  WcStatus status = WcStatus::success;
  WcOpcode opcode = WcOpcode::send;
  std::uint16_t wc_flags = 0;    ///< WcFlags
  std::uint32_t byte_len = 0;    ///< receives and READs: bytes written to local memory
  std::uint32_t imm_data = 0;    ///< with kWcWithImm; host order
  MemoryKey invalidated_rkey{};  ///< with kWcWithInv
  wire::Qpn qp_num{};            ///< the local queue pair
  wire::Qpn src_qp{};            ///< UD receives: the queue pair that sent it
  std::uint16_t pkey_index = 0;  ///< receives of queue pair 1: of the datagram's P_Key
  bool is_ipv6 = false;          ///< with kWcGrh: it is a header of IPv6, else it ends with IPv4's
};

/// Which completions raise the next event (IBTA vol. 1, 11.4.2.2).
enum class Notify : std::uint8_t { none, solicited_only, next };

class CompletionQueue;

/// Base of what can stand in a completion channel's list of events; leaves it when destroyed.
using CompletionQueueHook =
    boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

/// Told once per CompletionQueue::request_notify, from inside the receive() or transmit() of the
/// engine's host, or of a post.
class CompletionHandler {
 public:
  CompletionHandler() = default;
  CompletionHandler(const CompletionHandler&) = delete;
  CompletionHandler& operator=(const CompletionHandler&) = delete;
  virtual ~CompletionHandler() = default;
  /// May poll the queue, arm it again, set a flag, wake a thread. Must not post to, modify or
  /// destroy a queue pair, nor call its engine: they may be in the middle of a change.
  virtual void on_completion_event(CompletionQueue& cq) = 0;
};

/// A bounded queue of completions. Belongs to its engine's thread, but poll() may be called by one
/// other thread meanwhile, as long as nobody resizes the queue, and size() by any. A completion
/// that finds the queue full puts it in error for good: as in verbs, the queue pairs that use it
/// are moved to ERR and completions from then on are lost.
class CompletionQueue : public CompletionQueueHook {
 public:
  static constexpr std::uint32_t kMaxCapacity = 1u << 22;

  /// `capacity` is 1 to kMaxCapacity, rounded up to a power of two.
  [[nodiscard]] static Expected<std::unique_ptr<CompletionQueue>> create(std::uint32_t capacity);

  /// As ibv_resize_cq: what is in the queue stays. Fails when it would not fit.
  [[nodiscard]] Expected<void> resize(std::uint32_t capacity);

  /// Takes up to out.size() completions, oldest first; returns their number.
  [[nodiscard]] std::size_t poll(std::span<Completion> out);
  /// Takes up to `most` completions, each by a call of `take(completion)`, which may not call the
  /// queue; returns their number.
  template <std::invocable<const Completion&> Take>
  [[nodiscard]] std::size_t poll(std::size_t most, Take&& take) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    const std::uint64_t waiting = tail_.load(std::memory_order_acquire) - head;
    const std::uint64_t count = std::min<std::uint64_t>(most, waiting);
    for (std::uint64_t i = 0; i < count; ++i) {
      take(std::as_const(ring_[(head + i) & mask_]));
    }
    head_.store(head + count, std::memory_order_release);
    return static_cast<std::size_t>(count);
  }

  /// Arms one event; `handler` is not owned, and null removes it.
  void request_notify(Notify notify, CompletionHandler* handler);

  [[nodiscard]] bool overrun() const { return overrun_; }
  [[nodiscard]] std::size_t size() const {
    // The head first: it never passes a tail that is read later.
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    return static_cast<std::size_t>(tail_.load(std::memory_order_acquire) - head);
  }
  [[nodiscard]] std::size_t capacity() const { return mask_ + 1; }
  /// How many completions have ever been put in, without those that discard() took out.
  [[nodiscard]] std::uint64_t pushed() const { return tail_.load(std::memory_order_acquire); }

  /// Takes the completions of a queue pair out that nobody has polled; the others keep their order.
  /// Nobody may poll meanwhile.
  void discard(wire::Qpn qp);

  // For the engine and its queue pairs.
  /// Puts a completion behind the others. Returns false if the queue is full or was: it is lost.
  [[nodiscard]] bool push(const Completion& completion, bool solicited) {
    return push_made([&completion](Completion& place) { place = completion; }, solicited);
  }
  /// The same for one that `make(completion)` makes in its place.
  template <std::invocable<Completion&> Make>
  [[nodiscard]] bool push_made(Make&& make, bool solicited) {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (overrun_ || tail - head_.load(std::memory_order_acquire) == capacity()) [[unlikely]] {
      overrun_ = true;
      return false;
    }
    Completion& place = ring_[tail & mask_];
    make(place);
    tail_.store(tail + 1, std::memory_order_release);
    if (notify_ != Notify::none) [[unlikely]] {
      raise(place, solicited);
    }
    return true;
  }
  /// Puts completions of sends without errors behind the others, each of which `next(completion)`
  /// fills in, until it returns false. Returns how many are lost: see push().
  template <std::predicate<Completion&> Next>
  [[nodiscard]] std::uint32_t push_sends(Next&& next) {
    const std::uint64_t begin = tail_.load(std::memory_order_relaxed);
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    const std::uint64_t end = overrun_ ? begin : head + capacity();
    std::uint64_t tail = begin;
    while (tail != end && next(ring_[tail & mask_])) {
      ++tail;
    }
    tail_.store(tail, std::memory_order_release);
    std::uint32_t lost = 0;
    if (tail == end) [[unlikely]] {
      for (Completion none; next(none);) {
        ++lost;
      }
      overrun_ = overrun_ || lost > 0;
    }
    if (notify_ != Notify::none && tail != begin) [[unlikely]] {
      raise(ring_[begin & mask_], false);
    }
    return lost;
  }
  /// Queue pairs that complete here, the two sides of each counted, are `change` more.
  void count_users(int change) { users_ += static_cast<std::uint32_t>(change); }
  [[nodiscard]] bool is_used() const { return users_ != 0; }

 private:
  explicit CompletionQueue(std::uint32_t capacity);
  /// Raises the event of an armed queue, if this completion is one that it waits for.
  void raise(const Completion& completion, bool solicited);

  std::unique_ptr<Completion[]> ring_;
  std::uint64_t mask_;
  std::atomic<std::uint64_t> head_{0};  ///< written by who polls
  std::atomic<std::uint64_t> tail_{0};  ///< written by the engine
  CompletionHandler* handler_ = nullptr;
  Notify notify_ = Notify::none;
  bool overrun_ = false;
  std::uint32_t users_ = 0;
};

}  // namespace rockhopper::roce
