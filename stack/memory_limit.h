// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>

namespace rockhopper::stack {

/// What to say behind an error about memory: "; this process may have 300 MB (ulimit -v)", or
/// nothing if its owner has not limited it.
[[nodiscard]] std::string memory_limit_text();

}  // namespace rockhopper::stack
