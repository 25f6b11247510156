// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/completion_queue.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace rockhopper::roce {
namespace {

constexpr std::uint32_t kMaxCapacity = 1u << 22;

}  // namespace

Expected<std::unique_ptr<CompletionQueue>> CompletionQueue::create(std::uint32_t capacity) {
  if (capacity == 0 || capacity > kMaxCapacity) {
    return fail(ErrorCode::invalid_argument, "a completion queue holds 1 to {} entries, not {}",
                kMaxCapacity, capacity);
  }
  return std::unique_ptr<CompletionQueue>(new CompletionQueue(std::bit_ceil(capacity)));
}

CompletionQueue::CompletionQueue(std::uint32_t capacity)
    : ring_(new Completion[capacity]), mask_(capacity - 1) {}

std::size_t CompletionQueue::poll(std::span<Completion> out) {
  const std::size_t count = std::min(out.size(), size());
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = ring_[(head_ + i) & mask_];
  }
  head_ += count;
  return count;
}

void CompletionQueue::request_notify(Notify notify, CompletionHandler* handler) {
  handler_ = handler;
  notify_ = handler == nullptr ? Notify::none : notify;
}

bool CompletionQueue::push(const Completion& completion, bool solicited) {
  if (overrun_ || size() == capacity()) {
    overrun_ = true;
    return false;
  }
  ring_[tail_++ & mask_] = completion;
  // An error counts as solicited (IBTA vol. 1, 11.4.2.2).
  const bool raises =
      notify_ == Notify::next ||
      (notify_ == Notify::solicited_only && (solicited || completion.status != WcStatus::success));
  if (raises) {
    notify_ = Notify::none;
    handler_->on_completion_event(*this);
  }
  return true;
}

}  // namespace rockhopper::roce
