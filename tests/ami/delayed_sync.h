// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace rockhopper::ami {

/// In place of apps/services/ami/sync.h's: at times 0 to 5 ms pass between a transfer's data and
/// its bit, or its count, so that an application that looks early has the time to be wrong.
struct Sync {
  static void delay() {
    static thread_local unsigned calls = 0;
    constexpr unsigned kEvery = 1021;
    if (++calls % kEvery == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(calls * 7919 % 5001));
    }
  }

  template <typename T>
  class Atomic : public std::atomic<T> {
   public:
    using std::atomic<T>::atomic;
    T fetch_or(T bits, std::memory_order order) {
      delay();
      return std::atomic<T>::fetch_or(bits, order);
    }
    void store(T value, std::memory_order order) {
      delay();
      std::atomic<T>::store(value, order);
    }
  };

  template <typename T>
  class Cell {
   public:
    [[nodiscard]] const T& read() const { return value_; }
    void write(const T& value) { value_ = value; }
    template <typename Fill>
    void fill(const Fill& fill) {
      fill(value_);
    }

   private:
    T value_{};
  };
};

}  // namespace rockhopper::ami
