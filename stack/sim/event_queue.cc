// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/sim/event_queue.h"

#include <algorithm>
#include <cassert>

#include "stack/link.h"

namespace rockhopper::stack::sim {
namespace {

constexpr std::size_t kChildren = 4;  // fewer levels than two, and a node's lie side by side

}  // namespace

Event::~Event() {
  if (queue_ != nullptr) queue_->cancel(*this);
}

EventQueue::~EventQueue() {
  for (const Entry& entry : heap_) {
    entry.event->queue_ = nullptr;
  }
}

void EventQueue::place(std::size_t place, const Entry& entry) {
  heap_[place] = entry;
  entry.event->place_ = place;
}

void EventQueue::sift_up(std::size_t at, const Entry& entry) {
  while (at > 0) {
    const std::size_t parent = (at - 1) / kChildren;
    if (!entry.before(heap_[parent])) break;
    place(at, heap_[parent]);
    at = parent;
  }
  place(at, entry);
}

void EventQueue::sift_down(std::size_t at, const Entry& entry) {
  for (;;) {
    const std::size_t first = at * kChildren + 1;
    if (first >= heap_.size()) break;
    const std::size_t end = std::min(first + kChildren, heap_.size());
    std::size_t earliest = first;
    for (std::size_t child = first + 1; child < end; ++child) {
      if (heap_[child].before(heap_[earliest])) earliest = child;
    }
    if (!heap_[earliest].before(entry)) break;
    place(at, heap_[earliest]);
    at = earliest;
  }
  place(at, entry);
}

void EventQueue::schedule(Event& event, std::uint64_t time_ns) {
  if (time_ns == kNever) return cancel(event);
  const Entry entry{time_ns, next_order_++, &event};
  if (event.queue_ == nullptr) {
    event.queue_ = this;
    heap_.emplace_back();
    return sift_up(heap_.size() - 1, entry);
  }
  assert(event.queue_ == this);
  const std::size_t at = event.place_;
  if (entry.before(heap_[at])) {
    sift_up(at, entry);
  } else {
    sift_down(at, entry);
  }
}

void EventQueue::schedule_by(Event& event, std::uint64_t time_ns) {
  if (event.queue_ != nullptr && heap_[event.place_].time_ns <= time_ns) return;
  schedule(event, time_ns);
}

void EventQueue::cancel(Event& event) {
  if (event.queue_ == nullptr) return;
  assert(event.queue_ == this);
  remove(event.place_);
}

void EventQueue::remove(std::size_t at) {
  heap_[at].event->queue_ = nullptr;
  const Entry last = heap_.back();
  heap_.pop_back();
  if (at == heap_.size()) return;
  if (at > 0 && last.before(heap_[(at - 1) / kChildren])) {
    sift_up(at, last);
  } else {
    sift_down(at, last);
  }
}

std::uint64_t EventQueue::next_ns() const { return heap_.empty() ? kNever : heap_[0].time_ns; }

void EventQueue::run_next() {
  assert(!heap_.empty());
  const Entry next = heap_[0];
  remove(0);
  next.event->run(next.time_ns);
}

}  // namespace rockhopper::stack::sim
