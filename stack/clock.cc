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

}  // namespace

TscClock::TscClock()
    : start_cycles_(rte_rdtsc()),
      start_ns_(read_ns(CLOCK_MONOTONIC)),
      wall_offset_ns_(read_ns(CLOCK_REALTIME) - start_ns_),
      ns_per_cycle_(static_cast<std::uint64_t>((static_cast<WideProduct>(kNsPerSecond) << 32) /
                                               rte_get_tsc_hz())) {}

std::uint64_t TscClock::now_ns() const {
  // A counter slightly behind on another CPU must not wrap to centuries ahead.
  const std::uint64_t cycles = rte_rdtsc();
  const std::uint64_t elapsed = cycles > start_cycles_ ? cycles - start_cycles_ : 0;
  return start_ns_ +
         static_cast<std::uint64_t>((static_cast<WideProduct>(elapsed) * ns_per_cycle_) >> 32);
}

}  // namespace rockhopper::stack
