// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>

#include "stack/error.h"

namespace rockhopper::stack::segment {

/// Where the processes of this user and network namespace meet without having agreed on a place:
/// $ROCKHOPPER_SEGMENT, or a folder in /dev/shm, or where that is missing in the runtime directory.
/// Makes it if need be, for this user alone; refuses one that others own or may enter.
[[nodiscard]] Expected<std::string> directory();

}  // namespace rockhopper::stack::segment
