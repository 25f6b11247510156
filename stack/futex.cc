// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/futex.h"

#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stack/time_units.h"

namespace rockhopper::stack {
namespace {

int flag_of(FutexScope scope) { return scope == FutexScope::process ? FUTEX_PRIVATE_FLAG : 0; }

}  // namespace

void wait_on_futex(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                   std::uint64_t deadline_ns, FutexScope scope) noexcept {
  timespec deadline{};
  deadline.tv_sec = static_cast<time_t>(deadline_ns / kNsPerSecond);
  deadline.tv_nsec = static_cast<long>(deadline_ns % kNsPerSecond);
  // This operation takes a point in time, FUTEX_WAIT a duration.
  (void)syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | flag_of(scope), expected,
                deadline_ns == UINT64_MAX ? nullptr : &deadline, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void wake_futex(const std::atomic<std::uint32_t>& word, int count, FutexScope scope) noexcept {
  (void)syscall(SYS_futex, &word, FUTEX_WAKE | flag_of(scope), count, nullptr, nullptr, 0);
}

}  // namespace rockhopper::stack
