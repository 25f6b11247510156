// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "stack/error.h"

namespace rockhopper::verbs {

/// Has `forget` called in each child of fork() from now on, before fork() returns there. It must
/// neither allocate nor lock. Calls after the first one change nothing. One thread at a time.
[[nodiscard]] Expected<void> call_after_fork(void (*forget)());

}  // namespace rockhopper::verbs
