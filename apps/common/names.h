// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace rockhopper::apps {

/// Of an enumerator: what options and messages say, and what titles and reports do.
struct Names {
  std::string_view name;
  std::string_view title = {};
};

template <typename Enum, std::size_t N>
[[nodiscard]] constexpr const Names& names_of(const std::array<Names, N>& table, Enum value) {
  return table[static_cast<std::size_t>(value)];
}

/// The enumerator with that name, in a table in their order.
template <typename Enum, std::size_t N>
[[nodiscard]] constexpr std::optional<Enum> parse_name(const std::array<Names, N>& table,
                                                       std::string_view name) {
  for (std::size_t i = 0; i < N; ++i) {
    if (table[i].name == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace rockhopper::apps
