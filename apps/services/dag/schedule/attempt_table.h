// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <queue>
#include <vector>

#include "apps/services/dag/schedule/node_attempt.h"

namespace rockhopper::dag {

/// The nodes that a worker has in hand, by index: free ones, those that wait for room at the
/// transport, and those that wait for time.
class AttemptTable final : private AttemptKeeper {
 public:
  /// `at` must outlive it.
  explicit AttemptTable(Workplace& at) : at_(at) {}

  /// Returns one that is free; null if there is no memory.
  [[nodiscard]] NodeAttempt* find_free();
  /// Returns null if there is none.
  [[nodiscard]] NodeAttempt* find(std::uint64_t index) const {
    return index < entries_.size() ? entries_[index].attempt.get() : nullptr;
  }
  /// Returns the one whose job has that ticket; null if there is none.
  [[nodiscard]] NodeAttempt* find_job(std::uint64_t ticket) const;
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const Entry& entry : entries_) {
      visit(*entry.attempt);
    }
  }
  [[nodiscard]] bool has_job() const;
  [[nodiscard]] bool is_under_way() const;

  /// Tries again to post what there was no room for. Returns false if nothing came of it.
  bool retry();
  /// Wakes those whose time has come. Returns false if there was none.
  bool wake();
  /// Returns when wake() has something to do; UINT64_MAX: never.
  [[nodiscard]] std::uint64_t next_wake_ns() const {
    return waiting_.empty() ? UINT64_MAX : waiting_.top().due_ns;
  }

 private:
  struct Entry {
    std::unique_ptr<NodeAttempt> attempt;
    bool is_blocked = false;  ///< it is in blocked_
  };
  struct Waiting {
    std::uint64_t due_ns = 0;
    std::uint64_t ticket = 0;  ///< of what waited: it is another one now if it waits no longer
    [[nodiscard]] friend bool operator<(const Waiting& a, const Waiting& b) {
      return a.due_ns > b.due_ns;
    }
  };

  void on_blocked(NodeAttempt& attempt) override;
  void on_waiting(NodeAttempt& attempt, std::uint64_t due_ns) override;
  void on_free(NodeAttempt& attempt) override { free_.push_back(attempt.index()); }

  Workplace& at_;
  std::vector<Entry> entries_;  ///< by index
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> blocked_;
  std::vector<std::uint32_t> retrying_;  ///< the same, while they are gone through
  std::priority_queue<Waiting> waiting_;
};

}  // namespace rockhopper::dag
