// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Regions of locks that an engine serves.
#include "roce/engine.h"

namespace rockhopper::roce {

lock::Service& Engine::need_locks() {
  if (locks_ == nullptr) {
    locks_ = std::make_unique<lock::Service>(config_.locks, timers_, now_ns_, held_packets_);
  }
  return *locks_;
}

void Engine::attach_locks(lock::Region& region) { need_locks().table.attach(region); }

Expected<void> Engine::detach_locks(lock::Region& region) {
  if (!need_locks().table.detach(region)) {
    return fail(ErrorCode::busy, "locks of the region are held or waited for");
  }
  return {};
}

}  // namespace rockhopper::roce
