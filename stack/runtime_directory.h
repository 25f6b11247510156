// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>

#include "stack/error.h"

namespace rockhopper::stack {

/// A directory of this user alone for sockets: $XDG_RUNTIME_DIR/rockhopper, or /tmp/rockhopper-UID
/// where that variable is not set; mode 0700. Makes it if need be; refuses one that is a link, that
/// others own, or that others may enter.
[[nodiscard]] Expected<std::string> runtime_directory();

}  // namespace rockhopper::stack
