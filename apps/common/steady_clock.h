// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <chrono>
#include <cstdint>

#include "stack/time_units.h"

namespace rockhopper::apps {

/// CLOCK_MONOTONIC in nanoseconds: for timing a workload and for timeouts of the control path.
[[nodiscard]] inline std::uint64_t steady_now_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace rockhopper::apps
