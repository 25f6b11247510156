// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/executor_queue.h"

#include <algorithm>
#include <cassert>

namespace rockhopper::dag {
namespace {

/// Nodes ahead of an executor that is as fast as nodes are prepared.
constexpr std::size_t kAheadMin = 2;
/// So many times as long as a node is prepared, one may wait.
constexpr std::uint64_t kPreparationsToWait = 64;
constexpr std::uint64_t kPrepareMinNs = 1'000;

}  // namespace

std::uint64_t ExecutorQueue::patience_ns() const {
  return kPreparationsToWait * std::max(prepare_ns_, kPrepareMinNs);
}

std::size_t ExecutorQueue::wanted(std::size_t room, std::uint64_t now_ns) const {
  const std::uint64_t waits_ns = room == 0 ? now_ns - changed_ns_ : 0;
  std::uint64_t more = 0;
  if (std::max(run_ns_, waits_ns) <= patience_ns()) {
    const std::uint64_t together = std::max<std::uint64_t>(jobs_, 1);
    more = kAheadMin + 3 * together * prepare_ns_ / (2 * std::max<std::uint64_t>(run_ns_, 1));
  }
  return std::min<std::uint64_t>(room + more, window_);
}

std::size_t ExecutorQueue::kept(std::size_t room, std::uint64_t now_ns) const {
  const std::size_t wanted_now = wanted(room, now_ns);
  return wanted_now > 0 ? wanted_now + kAheadMin : 0;
}

std::uint64_t ExecutorQueue::next_ns() const {
  return prepared_.empty() ? UINT64_MAX : changed_ns_ + patience_ns() + 1;
}

void ExecutorQueue::order() { std::make_heap(prepared_.begin(), prepared_.end()); }

void ExecutorQueue::push(const Prepared& prepared, std::uint64_t took_ns) {
  prepare_ns_ = prepare_ns_ == 0 ? took_ns : (7 * prepare_ns_ + took_ns) / 8;
  prepared_.push_back(prepared);
  std::push_heap(prepared_.begin(), prepared_.end());
}

std::uint32_t ExecutorQueue::start(std::uint64_t now_ns) {
  assert(!prepared_.empty());
  std::pop_heap(prepared_.begin(), prepared_.end());
  ++jobs_;
  changed_ns_ = now_ns;
  return take_back();
}

std::uint32_t ExecutorQueue::take_back() {
  assert(!prepared_.empty());
  const std::uint32_t which = prepared_.back().which;
  prepared_.pop_back();
  return which;
}

void ExecutorQueue::on_job_ended(std::uint64_t took_ns, std::uint64_t now_ns) {
  assert(jobs_ > 0);
  --jobs_;
  changed_ns_ = now_ns;
  run_ns_ = run_ns_ == 0 ? took_ns : (3 * run_ns_ + took_ns) / 4;
}

}  // namespace rockhopper::dag
