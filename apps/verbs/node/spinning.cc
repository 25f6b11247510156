// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/node/spinning.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include <sched.h>
#include <sys/resource.h>

#include "stack/time_units.h"

namespace rockhopper::verbs {
namespace {

constexpr std::uint64_t kMostNs = 50 * kNsPerUs;
constexpr std::uint64_t kStepNs = 500;
/// Threads that use no more than so much between two sleeps of this one do not poll.
constexpr std::uint64_t kIdleNs = 2 * kNsPerUs;

std::uint64_t used_ns(clockid_t clock) {
  timespec time{};
  (void)clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * kNsPerSecond +
         static_cast<std::uint64_t>(time.tv_nsec);
}

long involuntary_switches() {
  rusage usage{};
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

int processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails where there are more than the set has room for.
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : CPU_SETSIZE;
}

}  // namespace

void Spinning::begin() {
  few_processors_ = processors() <= 2;
  limit_ns_ = few_processors_ ? 0 : kMostNs;
  (void)is_unwelcome();
}

void Spinning::adapt() {
  limit_ns_ = is_unwelcome() ? limit_ns_ / 2 : std::min(limit_ns_ + kStepNs, kMostNs);
}

bool Spinning::is_unwelcome() {
  const long preemptions = involuntary_switches();
  bool unwelcome = preemptions != std::exchange(preemptions_, preemptions);
  if (few_processors_) {
    const std::uint64_t others_ns =
        used_ns(CLOCK_PROCESS_CPUTIME_ID) - used_ns(CLOCK_THREAD_CPUTIME_ID);
    unwelcome |= others_ns - std::exchange(used_by_others_ns_, others_ns) > kIdleNs;
  }
  return unwelcome;
}

}  // namespace rockhopper::verbs
