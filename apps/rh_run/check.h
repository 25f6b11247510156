// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>

#include "stack/error.h"

namespace rockhopper::apps::launcher {

/// The file that a shell would run for `command`. Fails with ErrorCode::not_found if there is none,
/// and with another code if there is one that cannot be run.
[[nodiscard]] Expected<std::string> find_program(const std::string& command);

/// The program that a script names in its first line; empty if `program` is no script, or cannot be
/// read.
[[nodiscard]] std::string interpreter_of(const std::string& program);

/// Asks the loader, with the environment that a command is given, which libraries and symbols
/// `program` and its libraries need: prints the libibverbs.so.1 that it would load and what is
/// missing. Of a script it asks for the interpreter. Fails if anything is missing, or if the
/// program cannot be examined or cannot be given another library.
[[nodiscard]] Expected<void> check_program(const std::string& program);

}  // namespace rockhopper::apps::launcher
