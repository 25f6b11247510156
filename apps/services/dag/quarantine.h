// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

namespace rockhopper::dag {

/// Where memory waits that has been freed, until nobody can still write to it (DG-30). Two
/// conditions: it has waited for `wait_ns`, and a grace period that began after it was freed has
/// ended. In a grace period, every client finishes what it had begun, or is fenced (Server).
class Quarantine {
 public:
  struct Block {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t freed_ns = 0;
  };
  explicit Quarantine(std::uint64_t wait_ns) : wait_ns_(wait_ns) {}

  void add(std::uint64_t address, std::uint64_t bytes, std::uint64_t now_ns) {
    fresh_.push_back({.address = address, .bytes = bytes, .freed_ns = now_ns});
    bytes_ += bytes;
    ++added_;
  }
  /// There is something for which a grace period should begin.
  [[nodiscard]] bool wants_grace() const { return !fresh_.empty() && in_grace_.empty(); }
  [[nodiscard]] bool in_grace() const { return !in_grace_.empty(); }
  void begin_grace() { in_grace_.swap(fresh_); }
  void end_grace() {
    aging_.insert(aging_.end(), in_grace_.begin(), in_grace_.end());
    in_grace_.clear();
  }
  /// Calls `release` with each block that may be used again.
  template <typename Release>
  void release(std::uint64_t now_ns, const Release& release) {
    while (!aging_.empty() && now_ns - aging_.front().freed_ns >= wait_ns_) {
      bytes_ -= aging_.front().bytes;
      ++released_;
      release(aging_.front());
      aging_.pop_front();
    }
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// Blocks since the beginning. They leave in the order in which they came: what was the n-th one
  /// to be added has rested when n have been released.
  [[nodiscard]] std::uint64_t added() const { return added_; }
  [[nodiscard]] std::uint64_t released() const { return released_; }
  /// When release() has something to do if no grace period ends before; UINT64_MAX: never.
  [[nodiscard]] std::uint64_t next_deadline_ns() const {
    return aging_.empty() ? UINT64_MAX : aging_.front().freed_ns + wait_ns_;
  }

 private:
  std::uint64_t wait_ns_;
  std::uint64_t bytes_ = 0;
  std::uint64_t added_ = 0;
  std::uint64_t released_ = 0;
  std::vector<Block> fresh_;
  std::vector<Block> in_grace_;
  std::deque<Block> aging_;
};

}  // namespace rockhopper::dag
