// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace rockhopper::apps {

/// Of an enumerator: what options and messages say, and what titles and reports do.
struct Names {
  std::string_view name;
  std::string_view title = {};
};

/// An enumeration whose enumerators have names. Beside it stands a function names_of() that takes
/// one of them and returns a std::array of Names, one for each enumerator from 0 on.
template <typename Enum>
concept Named = requires(Enum value) {
  names_of(value)[0].name;
  names_of(value)[0].title;
};

/// The name that options and messages use.
template <Named Enum>
[[nodiscard]] constexpr std::string_view name_of(Enum value) {
  return names_of(value)[static_cast<std::size_t>(value)].name;
}

/// The name that titles and reports use.
template <Named Enum>
[[nodiscard]] constexpr std::string_view title_of(Enum value) {
  return names_of(value)[static_cast<std::size_t>(value)].title;
}

/// The enumerator with that name, if there is one.
template <Named Enum>
[[nodiscard]] constexpr std::optional<Enum> parse_name(std::string_view name) {
  const auto names = names_of(Enum{});
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].name == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

/// All names with `between` between them.
template <Named Enum>
[[nodiscard]] std::string all_names(std::string_view between = ", ") {
  std::string all;
  for (const Names& names : names_of(Enum{})) {
    if (!all.empty()) all += between;
    all += names.name;
  }
  return all;
}

}  // namespace rockhopper::apps
