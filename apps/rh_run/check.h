// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>

#include "stack/error.h"

namespace rockhopper::apps::launcher {

/// The file that a shell would run for `command`. Fails if there is none.
[[nodiscard]] Expected<std::string> find_program(const std::string& command);

/// Asks the loader, with the environment that a command is given, which libraries and symbols
/// `program` and its libraries need: prints the libibverbs.so.1 that it would load and what is
/// missing. Fails if anything is, or if the program cannot be examined.
[[nodiscard]] Expected<void> check_program(const std::string& program);

}  // namespace rockhopper::apps::launcher
