// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>

#include "stack/error.h"

namespace rockhopper::stack {

/// Makes the directory for this user alone, mode 0700, if it is not there yet; its parent is.
/// Refuses one that is a link, that others own, or that others may enter. Errors: `io`.
[[nodiscard]] Expected<void> make_private_directory(const std::string& path);

/// A directory of this user alone for sockets, as write_runtime_path() chooses it. Makes and checks
/// it as make_private_directory() does. Says on standard error, once in a process, if it is not
/// where $XDG_RUNTIME_DIR says. Errors: `io`.
[[nodiscard]] Expected<std::string> runtime_directory();

}  // namespace rockhopper::stack
