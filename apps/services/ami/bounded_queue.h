// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cassert>
#include <cstddef>
#include <vector>

namespace rockhopper::ami {

/// A queue with a limit, without allocation after its making.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t limit) : ring_(limit) {}
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] bool full() const { return count_ == ring_.size(); }
  [[nodiscard]] const T& front() const { return at(0); }
  [[nodiscard]] const T& at(std::size_t i) const {
    assert(i < count_);
    return ring_[(first_ + i) % ring_.size()];
  }
  void push(const T& value) {
    assert(!full());
    ring_[(first_ + count_++) % ring_.size()] = value;
  }
  void pop(std::size_t n = 1) {
    assert(n <= count_);
    first_ = (first_ + n) % ring_.size();
    count_ -= n;
  }
  void clear() { count_ = 0; }

 private:
  std::vector<T> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;  ///< <= the ring's size
};

}  // namespace rockhopper::ami
