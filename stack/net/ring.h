// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cassert>
#include <cstddef>
#include <vector>

namespace rockhopper::stack::net {

/// A first-in first-out queue of plain values in one piece of memory, which grows by doubling: it
/// allocates only when it is longer than ever before.
template <typename T>
class Ring {
 public:
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }

  void push(const T& value) {
    if (size_ == values_.size()) grow();
    values_[(head_ + size_++) & (values_.size() - 1)] = value;
  }
  /// Counted from the oldest. Requires index < size().
  [[nodiscard]] T& at(std::size_t index) {
    assert(index < size_);
    return values_[(head_ + index) & (values_.size() - 1)];
  }
  [[nodiscard]] const T& at(std::size_t index) const {
    assert(index < size_);
    return values_[(head_ + index) & (values_.size() - 1)];
  }
  [[nodiscard]] T& front() { return at(0); }
  [[nodiscard]] const T& front() const { return at(0); }
  /// Requires that it is not empty.
  T pop() {
    const T value = front();
    head_ = (head_ + 1) & (values_.size() - 1);
    --size_;
    return value;
  }

 private:
  void grow() {
    std::vector<T> larger(values_.empty() ? 16 : 2 * values_.size());
    for (std::size_t i = 0; i < size_; ++i) {
      larger[i] = at(i);
    }
    values_ = std::move(larger);
    head_ = 0;
  }

  std::vector<T> values_;  ///< a power of two of them, or none
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace rockhopper::stack::net
