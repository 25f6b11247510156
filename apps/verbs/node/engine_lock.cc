// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/node/engine_lock.h"

#include <rte_pause.h>

#include "stack/futex.h"

namespace rockhopper::verbs {
namespace {

/// About two microseconds, which is a turn with full bursts. Whoever holds the lock for longer has
/// lost its processor, perhaps to the one that spins.
constexpr unsigned kSpins = 64;

}  // namespace

void EngineLock::wait() noexcept {
  for (unsigned i = 0; i < kSpins; ++i) {
    rte_pause();
    if (state_.load(std::memory_order_relaxed) == kFree && try_lock()) return;
  }
  while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree) {
    stack::wait_on_futex(state_, kAwaited, UINT64_MAX);
  }
}

void EngineLock::wake() noexcept { stack::wake_futex(state_, 1); }

}  // namespace rockhopper::verbs
