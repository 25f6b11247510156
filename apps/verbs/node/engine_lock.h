// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstdint>

namespace rockhopper::verbs {

/// A lock for sections of about a microsecond: waiters spin for a while and then sleep. A Lockable
/// of the standard library. Its state is one word, so that a child of fork() can make it anew.
class EngineLock {
 public:
  EngineLock() = default;
  EngineLock(const EngineLock&) = delete;
  EngineLock& operator=(const EngineLock&) = delete;

  void lock() noexcept {
    if (!try_lock()) wait();
  }
  [[nodiscard]] bool try_lock() noexcept {
    std::uint32_t expected = kFree;
    return state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  void unlock() noexcept {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) wake();
  }
  /// For a child of fork(), in which the thread that held it does not exist.
  void reset() noexcept { state_.store(kFree, std::memory_order_relaxed); }

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kHeld = 1;
  static constexpr std::uint32_t kAwaited = 2;  ///< held, and somebody may sleep

  void wait() noexcept;
  void wake() noexcept;

  std::atomic<std::uint32_t> state_{kFree};
};

}  // namespace rockhopper::verbs
