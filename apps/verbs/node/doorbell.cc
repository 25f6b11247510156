// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/node/doorbell.h"

#include "apps/verbs/node/futex.h"

namespace rockhopper::verbs {

bool LocalDoorbell::arm() noexcept {
  seen_ = rings_.load(std::memory_order_acquire);
  return true;
}

void LocalDoorbell::sleep(std::uint64_t deadline_ns) noexcept {
  wait_on_futex(rings_, seen_, deadline_ns);
}

void LocalDoorbell::ring() noexcept {
  rings_.fetch_add(1, std::memory_order_release);
  wake_futex(rings_, 1);
}

}  // namespace rockhopper::verbs
