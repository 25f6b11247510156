// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/process_barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rockhopper::stack {
namespace {

bool call(int command) noexcept { return syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

bool join_process_barriers() noexcept {
  // A filter of system calls may allow one of them alone.
  return call(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) && call(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

void process_barrier() noexcept { (void)call(MEMBARRIER_CMD_GLOBAL_EXPEDITED); }

}  // namespace rockhopper::stack
