// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

// A test may have its own in place of this one: the name of a header.
#ifdef ROCKHOPPER_AMI_SYNC
#include ROCKHOPPER_AMI_SYNC
#else

#include <atomic>

namespace rockhopper::ami {

/// What two threads share, as the processor has it. Code that takes these types as a parameter is
/// explored with others that see every access and choose which thread is next (tests/ami).
struct Sync {
  template <typename T>
  using Atomic = std::atomic<T>;

  /// Read and written by one thread at a time, which the atomics around it have to see to.
  template <typename T>
  class Cell {
   public:
    [[nodiscard]] const T& read() const { return value_; }
    void write(const T& value) { value_ = value; }
    /// In place: what is written in small pieces is not read at once as a whole, which would wait.
    template <typename Fill>
    void fill(const Fill& fill) {
      fill(value_);
    }

   private:
    T value_{};
  };
};

}  // namespace rockhopper::ami

#endif
