// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

#include "stack/error.h"

namespace rockhopper::apps::dag_node {

struct Range {
  std::uint64_t least = 0;
  std::uint64_t most = UINT64_MAX;
};

/// The value of an option with a unit (stack/quantity.h), which must be in the range.
[[nodiscard]] Expected<void> read_bytes(const char* option, const std::string& text,
                                        const Range& range, std::uint64_t& bytes);
[[nodiscard]] Expected<void> read_time(const char* option, const std::string& text,
                                       const Range& range, std::uint64_t& ns);

}  // namespace rockhopper::apps::dag_node
