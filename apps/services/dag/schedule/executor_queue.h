// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rockhopper::dag {

/// The nodes that are prepared for a worker's executor, the most urgent one first (DG-41), and how
/// many it is worth to have on their way there: what is claimed, others cannot run.
class ExecutorQueue {
 public:
  struct Prepared {
    unsigned priority = 0;      ///< class
    std::uint64_t urgency = 0;  ///< within the class, larger is more urgent
    std::uint32_t which = 0;
    [[nodiscard]] friend bool operator<(const Prepared& a, const Prepared& b) {
      return a.priority != b.priority ? a.priority > b.priority : a.urgency < b.urgency;
    }
  };

  /// There are at most `window` nodes on their way.
  explicit ExecutorQueue(std::size_t window) : window_(window) {}

  [[nodiscard]] bool empty() const { return prepared_.empty(); }
  /// Counts the jobs that have begun and not ended.
  [[nodiscard]] std::size_t jobs() const { return jobs_; }
  /// Returns how many nodes are wanted on their way to an executor with `room`: as many, and what
  /// it ends while one is prepared. No more than the room if its jobs take much longer than that.
  [[nodiscard]] std::size_t wanted(std::size_t room, std::uint64_t now_ns) const;
  /// Returns how many of them may stay: of more, some are given back.
  [[nodiscard]] std::size_t kept(std::size_t room, std::uint64_t now_ns) const;
  /// Returns when something changes in what is wanted, if no job begins or ends; UINT64_MAX: never.
  [[nodiscard]] std::uint64_t next_ns() const;

  /// A node is prepared, `took_ns` after it was claimed.
  void push(const Prepared& prepared, std::uint64_t took_ns);
  /// Takes the most urgent one, whose job begins. Requires that there is one.
  [[nodiscard]] std::uint32_t start(std::uint64_t now_ns);
  /// Takes one that is not urgent. Requires that there is one.
  [[nodiscard]] std::uint32_t take_back();
  /// Forgets those for which `is_unwanted(which)`.
  template <typename Predicate>
  void remove_if(const Predicate& is_unwanted);
  /// A job that took `took_ns` has ended.
  void on_job_ended(std::uint64_t took_ns, std::uint64_t now_ns);

 private:
  void order();
  /// Returns how long a prepared node may wait.
  [[nodiscard]] std::uint64_t patience_ns() const;

  std::size_t window_;
  std::vector<Prepared> prepared_;  ///< a heap: the most urgent one is the first
  std::size_t jobs_ = 0;
  std::uint64_t changed_ns_ = 0;  ///< since then the executor's room is the same
  std::uint64_t run_ns_ = 0;      ///< that a job takes, about; 0: not known
  std::uint64_t prepare_ns_ = 0;  ///< likewise from a claim to being prepared
};

template <typename Predicate>
void ExecutorQueue::remove_if(const Predicate& is_unwanted) {
  std::erase_if(prepared_, [&](const Prepared& one) { return is_unwanted(one.which); });
  order();
}

}  // namespace rockhopper::dag
