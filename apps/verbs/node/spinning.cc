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
/// So often it is seen whether other threads of the process work, as that takes system calls.
constexpr std::uint64_t kLookNs = 100 * kNsPerUs;
/// Threads that together use less than this part of a processor do not poll.
constexpr std::uint64_t kIdlePart = 4;

std::uint64_t read_ns(clockid_t clock) {
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
  preemptions_ = involuntary_switches();
}

void Spinning::adapt() {
  const long preemptions = involuntary_switches();
  const bool preempted = preemptions != std::exchange(preemptions_, preemptions);
  if (few_processors_) look_at_others();
  limit_ns_ = preempted || others_work_ ? limit_ns_ / 2 : std::min(limit_ns_ + kStepNs, kMostNs);
}

void Spinning::look_at_others() {
  const std::uint64_t now_ns = read_ns(CLOCK_MONOTONIC);
  if (now_ns - looked_ns_ < kLookNs) return;
  const std::uint64_t elapsed_ns = now_ns - std::exchange(looked_ns_, now_ns);
  const std::uint64_t own_ns = read_ns(CLOCK_THREAD_CPUTIME_ID);
  const std::uint64_t others_ns = read_ns(CLOCK_PROCESS_CPUTIME_ID) - own_ns;
  // The two clocks are not read at once: what they tell of an idle process goes up and down a
  // little.
  const auto used_ns =
      static_cast<std::int64_t>(others_ns - std::exchange(used_by_others_ns_, others_ns));
  others_work_ = used_ns > static_cast<std::int64_t>(elapsed_ns / kIdlePart);
}

}  // namespace rockhopper::verbs
