// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string_view>

#include "stack/error.h"

namespace rockhopper::stack {

/// Gives each item of `list`, between commas, to `take(std::string_view) -> Expected<void>`, until
/// one is refused. A list without commas is one item, also an empty one.
template <typename Take>
[[nodiscard]] Expected<void> split_list(std::string_view list, Take&& take) {
  while (true) {
    const std::size_t comma = list.find(',');
    ROCKHOPPER_TRY(take(list.substr(0, comma)));
    if (comma == std::string_view::npos) return {};
    list.remove_prefix(comma + 1);
  }
}

}  // namespace rockhopper::stack
