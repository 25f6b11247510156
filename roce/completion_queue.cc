// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/completion_queue.h"

#include <bit>
#include <utility>

namespace rockhopper::roce {
namespace {

Expected<void> check_capacity(std::uint32_t capacity) {
  if (capacity == 0 || capacity > CompletionQueue::kMaxCapacity) {
    return fail(ErrorCode::invalid_argument, "a completion queue holds 1 to {} entries, not {}",
                CompletionQueue::kMaxCapacity, capacity);
  }
  return {};
}

}  // namespace

Expected<std::unique_ptr<CompletionQueue>> CompletionQueue::create(std::uint32_t capacity) {
  ROCKHOPPER_TRY(check_capacity(capacity));
  return std::unique_ptr<CompletionQueue>(new CompletionQueue(std::bit_ceil(capacity)));
}

CompletionQueue::CompletionQueue(std::uint32_t capacity)
    : ring_(new Completion[capacity]), mask_(capacity - 1) {}

Expected<void> CompletionQueue::resize(std::uint32_t capacity) {
  ROCKHOPPER_TRY(check_capacity(capacity));
  if (capacity < size()) {
    return fail(ErrorCode::invalid_argument, "{} completions do not fit into {} entries", size(),
                capacity);
  }
  const std::uint64_t mask = std::bit_ceil(capacity) - 1;
  std::unique_ptr<Completion[]> ring(new Completion[mask + 1]);
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  for (std::uint64_t i = head_.load(std::memory_order_relaxed); i != tail; ++i) {
    ring[i & mask] = ring_[i & mask_];
  }
  ring_ = std::move(ring);
  mask_ = mask;
  return {};
}

std::size_t CompletionQueue::poll(std::span<Completion> out) {
  auto next = out.begin();
  return poll(out.size(), [&next](const Completion& completion) { *next++ = completion; });
}

void CompletionQueue::discard(wire::Qpn qp) {
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  std::uint64_t kept = head_.load(std::memory_order_relaxed);
  for (std::uint64_t i = kept; i != tail; ++i) {
    if (ring_[i & mask_].qp_num == qp) continue;
    if (kept != i) ring_[kept & mask_] = ring_[i & mask_];
    ++kept;
  }
  tail_.store(kept, std::memory_order_release);
}

void CompletionQueue::request_notify(Notify notify, CompletionHandler* handler) {
  handler_ = handler;
  notify_ = handler == nullptr ? Notify::none : notify;
}

void CompletionQueue::raise(const Completion& completion, bool solicited) {
  // An error counts as solicited (IBTA vol. 1, 11.4.2.2).
  const bool raises =
      notify_ == Notify::next ||
      (notify_ == Notify::solicited_only && (solicited || completion.status != WcStatus::success));
  if (raises) {
    notify_ = Notify::none;
    handler_->on_completion_event(*this);
  }
}

}  // namespace rockhopper::roce
