// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "roce/completion_queue.h"
#include "roce/prefetch.h"
#include "roce/send_wqe.h"
#include "roce/wire/lketh.h"
#include "roce/work_request.h"

namespace rockhopper::roce {

/// What only some requests have; behind the inline data of a queue pair that allows them.
struct SendWqeExtension {
  // A masked atomic's, as XAETH has them.
  std::uint64_t compare_mask;  ///< 0 if the value is added
  std::uint64_t mask;          ///< of swap_add
  std::uint32_t remote_srqn;   ///< XRC
};

/// What a lock request sends, of a queue pair that has those; behind the inline data too.
struct LockWqe {
  wire::Lketh header;
  std::array<std::uint8_t, 112> body;
};

struct RecvWqe {
  std::uint64_t wr_id;
  std::uint64_t length;  ///< sum over the list
  std::uint16_t num_sge;
};

/// A ring of work queue entries with their scatter/gather lists, all in one piece of memory.
/// Entries are named by a sequence number that never wraps (64 bits). `extra_bytes` of storage
/// come with each entry (inline data).
template <typename Wqe>
class WorkQueue {
 public:
  WorkQueue(std::uint32_t capacity, std::uint32_t max_sge, std::uint32_t extra_bytes)
      : capacity_(capacity),
        max_sge_(max_sge),
        extra_bytes_(extra_bytes),
        mask_(std::bit_ceil(capacity) - 1) {
    static_assert(sizeof(Wqe) % alignof(Sge) == 0 && alignof(Wqe) <= alignof(std::max_align_t));
    if (capacity == 0) return;
    const std::size_t sges = slots() * max_sge;
    const std::size_t entries = slots() * sizeof(Wqe);
    memory_.reset(new std::byte[entries + sges * sizeof(Sge) + slots() * extra_bytes]);
    lists_ = reinterpret_cast<Sge*>(memory_.get() + entries);
    std::uninitialized_default_construct_n(wqes(), slots());
    std::uninitialized_default_construct_n(lists_, sges);
  }

  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }
  [[nodiscard]] std::uint64_t head() const { return head_; }
  [[nodiscard]] std::uint64_t tail() const { return tail_; }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(tail_ - head_); }
  [[nodiscard]] bool empty() const { return head_ == tail_; }
  [[nodiscard]] bool full() const { return size() == capacity_; }
  [[nodiscard]] std::uint32_t max_sge() const { return max_sge_; }
  [[nodiscard]] std::uint32_t extra_bytes() const { return extra_bytes_; }

  /// The entry behind the last, to be filled before push(). Requires !full().
  [[nodiscard]] Wqe& next() { return wqes()[slot(tail_)]; }
  void push() {
    assert(!full());
    ++tail_;
  }
  [[nodiscard]] Wqe& at(std::uint64_t sequence) {
    assert(sequence >= head_ && sequence < tail_);
    return wqes()[slot(sequence)];
  }
  [[nodiscard]] const Wqe& at(std::uint64_t sequence) const {
    assert(sequence >= head_ && sequence < tail_);
    return wqes()[slot(sequence)];
  }
  [[nodiscard]] Wqe& front() { return at(head_); }
  [[nodiscard]] const Wqe& front() const { return at(head_); }
  void pop() {
    assert(!empty());
    ++head_;
  }
  /// The `count` oldest, which are there.
  void pop(std::uint32_t count) {
    assert(count <= size());
    head_ += count;
  }
  void clear() { head_ = tail_; }

  /// Entries keep their sequence numbers. Requires capacity >= size(). Control path.
  void resize(std::uint32_t capacity) {
    assert(capacity >= size());
    WorkQueue other(capacity, max_sge_, extra_bytes_);
    for (std::uint64_t sequence = head_; sequence != tail_; ++sequence) {
      other.wqes()[other.slot(sequence)] = wqes()[slot(sequence)];
      std::ranges::copy(sges(sequence), other.sges(sequence).begin());
      std::ranges::copy(extra(sequence), other.extra(sequence).begin());
    }
    other.head_ = head_;
    other.tail_ = tail_;
    *this = std::move(other);
  }

  [[nodiscard]] std::span<Sge> sges(std::uint64_t sequence) {
    return {lists_ + slot(sequence) * max_sge_, max_sge_};
  }
  [[nodiscard]] std::span<std::byte> extra(std::uint64_t sequence) {
    return {extras() + slot(sequence) * extra_bytes_, extra_bytes_};
  }

  /// The entries that are there and their lists, for a loop that leaves the queue as it is: a
  /// value, so that what the loop writes elsewhere cannot have changed where they are.
  class Entries {
   public:
    explicit Entries(const WorkQueue& queue)
        : wqes_(queue.wqes()), lists_(queue.lists_), mask_(queue.mask_), max_sge_(queue.max_sge_) {}

    /// Where the entry and its list are.
    [[nodiscard]] std::size_t slot(std::uint64_t sequence) const {
      return static_cast<std::size_t>(sequence & mask_);
    }
    [[nodiscard]] Wqe& at(std::size_t slot) const { return wqes_[slot]; }
    /// The first element of the list. Requires max_sge() > 0.
    [[nodiscard]] const Sge& sge(std::size_t slot) const { return lists_[slot * max_sge_]; }

   private:
    Wqe* wqes_;
    const Sge* lists_;
    std::uint32_t mask_;
    std::uint32_t max_sge_;
  };

  /// Loads the requests from `sequence` on: a hint, for queues that have left the cache. More than
  /// these the processor foresees by itself.
  void prefetch(std::uint64_t sequence) const {
    constexpr std::size_t kBytes = std::size_t{4} * RTE_CACHE_LINE_SIZE;
    const std::size_t index = slot(sequence);
    prefetch_bytes(&wqes()[index], kBytes);
    prefetch_bytes(lists_ + index * max_sge_, kBytes);
    if (extra_bytes_ != 0 && capacity_ != 0) {
      prefetch_bytes(extras() + index * extra_bytes_, kBytes);
    }
  }

 private:
  [[nodiscard]] Wqe* wqes() const { return reinterpret_cast<Wqe*>(memory_.get()); }
  [[nodiscard]] std::byte* extras() const {
    return reinterpret_cast<std::byte*>(lists_ + slots() * max_sge_);
  }
  [[nodiscard]] std::size_t slots() const { return std::size_t{mask_} + 1; }
  [[nodiscard]] std::size_t slot(std::uint64_t sequence) const {
    return static_cast<std::size_t>(sequence & mask_);
  }

  std::uint32_t capacity_;
  std::uint32_t max_sge_;
  std::uint32_t extra_bytes_;
  std::uint32_t mask_;  ///< of a sequence number: its slot. Slots are a power of two
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
  std::unique_ptr<std::byte[]> memory_;  ///< the entries, then what follows
  Sge* lists_ = nullptr;                 ///< behind the entries; then come the extra bytes
};

using SendQueue = WorkQueue<SendWqe>;
using RecvQueue = WorkQueue<RecvWqe>;

/// Puts a receive request behind the others.
[[nodiscard]] inline PostResult post_receive(RecvQueue& queue, const RecvWr& wr) {
  if (queue.full()) return PostResult::queue_full;
  if (wr.sg_list.size() > queue.max_sge()) return PostResult::too_many_sges;
  queue.next() = RecvWqe{.wr_id = wr.wr_id,
                         .length = total_length(wr.sg_list),
                         .num_sge = static_cast<std::uint16_t>(wr.sg_list.size())};
  if (wr.sg_list.size() == 1) [[likely]] {
    queue.sges(queue.tail()).front() = wr.sg_list.front();
  } else {
    std::copy(wr.sg_list.begin(), wr.sg_list.end(), queue.sges(queue.tail()).begin());
  }
  queue.push();
  return PostResult::ok;
}
/// Moves the front request of `from` to the end of `to`, which has room for it and its list.
void move_receive(RecvQueue& from, RecvQueue& to);

}  // namespace rockhopper::roce
