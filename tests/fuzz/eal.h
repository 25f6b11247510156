// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "stack/eal.h"
#include "tests/fuzz/fuzz_target.h"

namespace rockhopper::fuzz {

/// Starts the process's one EAL if no other target of it did. It never ends: static objects, pools
/// among them, end in no useful order.
inline void ensure_eal() {
  static const stack::Eal* const eal = [] {
    auto started = stack::Eal::start({}, {.memory_mb = 64});
    check(started.has_value());
    return started->release();
  }();
  check(eal != nullptr);
}

}  // namespace rockhopper::fuzz
