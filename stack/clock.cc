// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/clock.h"

#include <ctime>

#include <rte_cycles.h>

#include "stack/time_units.h"

namespace rockhopper::stack {
namespace {

__extension__ using WideProduct = unsigned __int128;

std::uint64_t read_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * kNsPerSecond +
         static_cast<std::uint64_t>(time.tv_nsec);
}

/// Both clocks at one moment.
struct Moment {
  std::uint64_t cycles;
  std::uint64_t ns;
};

/// A thread that loses its processor between the two readings tries again.
Moment read_both() {
  constexpr std::uint64_t kTogetherNs = 2 * kNsPerUs;
  Moment moment{};
  std::uint64_t after_ns = 0;
  do {
    moment.ns = read_ns(CLOCK_MONOTONIC);
    moment.cycles = rte_rdtsc();
    after_ns = read_ns(CLOCK_MONOTONIC);
  } while (after_ns - moment.ns > kTogetherNs);
  return moment;
}

/// The counter's rate as a few milliseconds tell.
std::uint64_t measure_rate() {
  constexpr std::uint64_t kMeasureNs = 5 * kNsPerMs;
  const Moment start = read_both();
  Moment end = start;
  while (end.ns - start.ns < kMeasureNs) {
    end = read_both();
  }
  return static_cast<std::uint64_t>(WideProduct{end.cycles - start.cycles} * kNsPerSecond /
                                    (end.ns - start.ns));
}

/// In cycles a second: what the EAL has measured, if there is one.
std::uint64_t counter_rate() {
  if (const std::uint64_t known = rte_get_tsc_hz(); known != 0) return known;
  static const std::uint64_t measured = measure_rate();
  return measured;
}

}  // namespace

TscClock::TscClock()
    : start_cycles_(rte_rdtsc()),
      start_ns_(read_ns(CLOCK_MONOTONIC)),
      wall_offset_ns_(read_ns(CLOCK_REALTIME) - start_ns_),
      ns_per_cycle_(static_cast<std::uint64_t>((static_cast<WideProduct>(kNsPerSecond) << 32) /
                                               counter_rate())) {}

std::uint64_t TscClock::now_ns() const {
  // A counter slightly behind on another CPU must not wrap to centuries ahead.
  const std::uint64_t cycles = rte_rdtsc();
  const std::uint64_t elapsed = cycles > start_cycles_ ? cycles - start_cycles_ : 0;
  return start_ns_ +
         static_cast<std::uint64_t>((static_cast<WideProduct>(elapsed) * ns_per_cycle_) >> 32);
}

}  // namespace rockhopper::stack
