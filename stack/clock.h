// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::stack {

/// A monotonic clock in nanoseconds. The only place where time is read; protocols are told it.
class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;
  [[nodiscard]] virtual std::uint64_t now_ns() const = 0;
};

/// Counts the time stamp counter from CLOCK_MONOTONIC's value at construction on, so that clocks of
/// a machine's processes agree within their calibration error. A running EAL has measured the
/// counter's rate; without one the first clock of a process takes 5 ms for it. Any thread.
class TscClock final : public Clock {
 public:
  TscClock();
  [[nodiscard]] std::uint64_t now_ns() const override;
  /// What to add to now_ns() for nanoseconds since 1970, as of construction.
  [[nodiscard]] std::uint64_t wall_offset_ns() const { return wall_offset_ns_; }

 private:
  std::uint64_t start_cycles_;
  std::uint64_t start_ns_;
  std::uint64_t wall_offset_ns_;
  std::uint64_t ns_per_cycle_;  ///< fixed point, 32 fractional bits
};

/// Time that passes only when told to. Single-threaded.
class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(std::uint64_t now_ns = 0) : now_ns_(now_ns) {}
  [[nodiscard]] std::uint64_t now_ns() const override { return now_ns_; }
  void advance(std::uint64_t by_ns) { now_ns_ += by_ns; }
  /// Moves to `to_ns`; an earlier time than now is ignored, as time does not go back.
  void advance_to(std::uint64_t to_ns) {
    if (to_ns > now_ns_) now_ns_ = to_ns;
  }

 private:
  std::uint64_t now_ns_;
};

}  // namespace rockhopper::stack
