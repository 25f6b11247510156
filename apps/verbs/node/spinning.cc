// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/node/spinning.h"

#include <algorithm>

#include <sched.h>
#include <sys/resource.h>

#include "stack/time_units.h"

namespace rockhopper::verbs {
namespace {

constexpr std::uint64_t kMostNs = 50 * kNsPerUs;
constexpr std::uint64_t kStepNs = 500;

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
  // With two, the application and its peer have them.
  most_ns_ = processors() > 2 ? kMostNs : 0;
  limit_ns_ = most_ns_;
  preemptions_ = involuntary_switches();
}

void Spinning::adapt() {
  if (most_ns_ == 0) return;
  const long preemptions = involuntary_switches();
  limit_ns_ = preemptions > preemptions_ ? limit_ns_ / 2 : std::min(limit_ns_ + kStepNs, most_ns_);
  preemptions_ = preemptions;
}

}  // namespace rockhopper::verbs
