// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <sched.h>

namespace rockhopper::test {

/// For as long as it lives the calling thread stays on one processor: the `index`th, modulo their
/// number, of those that it may use. Threads of different processors run at the same time, which
/// the scheduler alone does not promise.
class OnProcessor {
 public:
  explicit OnProcessor(int index) {
    if (sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    const int wanted = index % CPU_COUNT(&before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &before_) && seen++ == wanted) {
        CPU_SET(cpu, &one);
      }
    }
    (void)sched_setaffinity(0, sizeof one, &one);
  }
  OnProcessor(const OnProcessor&) = delete;
  OnProcessor& operator=(const OnProcessor&) = delete;
  ~OnProcessor() { (void)sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_{};
};

}  // namespace rockhopper::test
