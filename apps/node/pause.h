// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <ctime>

#include "stack/time_units.h"

namespace rockhopper {

/// Sleeps, while something is waited for that does not show soon; a signal ends it early.
inline void pause_ms(std::uint64_t ms) {
  const timespec duration{0, static_cast<long>(ms * kNsPerMs)};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, nullptr);
}

}  // namespace rockhopper
