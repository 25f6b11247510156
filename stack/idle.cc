// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/idle.h"

#include <algorithm>
#include <ctime>

#include <sched.h>

namespace rockhopper::stack {

void Idler::rest(std::uint64_t until_work_ns) const {
  if (policy_ == IdlePolicy::yield) {
    sched_yield();
  } else if (until_work_ns > 0) {
    const timespec duration{0, static_cast<long>(std::min(longest_sleep_ns(), until_work_ns))};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, nullptr);
  }
}

}  // namespace rockhopper::stack
