// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/ready_nodes.h"

namespace rockhopper::dag {

bool ReadyNodes::has_any(unsigned priority) {
  return deques_.size(priority) > set_aside_[priority];
}

bool ReadyNodes::is_exhausted() {
  if (!overflow_.empty()) return false;
  for (unsigned priority = 0; priority < kPriorityClasses; ++priority) {
    if (has_any(priority)) return false;
  }
  return true;
}

std::optional<ReadyNodes::Ready> ReadyNodes::pop() {
  for (unsigned priority = 0; priority < kPriorityClasses; ++priority) {
    if (!has_any(priority)) continue;
    if (const auto entry = deques_.pop(priority)) return Ready{priority, *entry};
  }
  return std::nullopt;
}

bool ReadyNodes::push_into_deque(const Ready& ready) {
  if (!deques_.push(ready.priority, ready.entry)) return false;
  set_aside_[ready.priority] = 0;
  return true;
}

void ReadyNodes::push(const Ready& ready) {
  if (push_into_deque(ready)) return;
  counters_.overflowed.add();
  overflow_.push_back(ready);
}

void ReadyNodes::set_aside(const Ready& ready) {
  ++set_aside_[ready.priority];
  if (!deques_.push_oldest(ready.priority, ready.entry)) overflow_.push_back(ready);
}

void ReadyNodes::refill() {
  while (!overflow_.empty() && push_into_deque(overflow_.back())) {
    overflow_.pop_back();
  }
}

void ReadyNodes::remove_run(std::uint8_t run) {
  deques_.remove_run(run);
  std::erase_if(overflow_, [run](const Ready& ready) { return ready.entry.run == run; });
}

}  // namespace rockhopper::dag
