// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

namespace rockhopper::stack {

/// A memory barrier in the threads of other processes, by membarrier(2): who waits seldom pays for
/// it, so that who works all the time need not. This process joins those in which it works; false:
/// the system does not let it. Any thread, any number of times.
[[nodiscard]] bool join_process_barriers() noexcept;

/// From the return on, each thread of each process that has joined has passed a barrier, and so has
/// the caller. Takes up to a tenth of a millisecond. Requires that join_process_barriers() has
/// returned true.
void process_barrier() noexcept;

}  // namespace rockhopper::stack
