// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/attempt_table.h"

#include <algorithm>
#include <utility>

namespace rockhopper::dag {

NodeAttempt* AttemptTable::find_free() {
  if (free_.empty()) {
    const auto index = static_cast<std::uint32_t>(entries_.size());
    auto made = std::make_unique<NodeAttempt>(at_, static_cast<AttemptKeeper&>(*this), index);
    if (!made->set_up()) return nullptr;
    entries_.push_back({.attempt = std::move(made)});
    free_.push_back(index);
  }
  NodeAttempt* attempt = find(free_.back());
  free_.pop_back();
  return attempt;
}

NodeAttempt* AttemptTable::find_job(std::uint64_t ticket) const {
  NodeAttempt* attempt = find(ticket & 0xffffffff);
  return attempt != nullptr && attempt->ticket() == ticket && attempt->has_job() ? attempt
                                                                                 : nullptr;
}

bool AttemptTable::has_job() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.attempt->has_job(); });
}

bool AttemptTable::is_under_way() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.attempt->is_under_way(); });
}

void AttemptTable::on_blocked(NodeAttempt& attempt) {
  if (std::exchange(entries_[attempt.index()].is_blocked, true)) return;
  blocked_.push_back(attempt.index());
}

bool AttemptTable::retry() {
  retrying_.swap(blocked_);
  bool worked = false;
  for (const std::uint32_t index : retrying_) {
    entries_[index].is_blocked = false;
    worked = find(index)->retry() || worked;
  }
  retrying_.clear();
  return worked;
}

void AttemptTable::on_waiting(NodeAttempt& attempt, std::uint64_t due_ns) {
  waiting_.push({.due_ns = due_ns, .ticket = attempt.ticket()});
}

bool AttemptTable::wake() {
  bool worked = false;
  while (next_wake_ns() <= at_.now_ns) {
    NodeAttempt& attempt = *find(waiting_.top().ticket & 0xffffffff);
    const bool waits =
        attempt.ticket() == waiting_.top().ticket && attempt.stage() == NodeAttempt::Stage::waiting;
    waiting_.pop();
    if (!waits) continue;
    attempt.wake();
    worked = true;
  }
  return worked;
}

}  // namespace rockhopper::dag
