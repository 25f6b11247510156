// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <functional>

namespace rockhopper::stack {

/// Runs `call` in the EAL's interrupt thread and returns its result once it is done. Drivers handle
/// their peers' messages there; memif's does so without a lock, so that nothing else may change the
/// state of such a device at the same time. Not during an InterruptGate::Burst, and never from a
/// callback that holds what `call` needs.
int call_in_interrupt_thread(const std::function<int()>& call);

}  // namespace rockhopper::stack
