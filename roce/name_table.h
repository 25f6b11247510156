// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace rockhopper::roce {

/// The name of an enumerator by its number; "invalid" for what is none.
template <typename Enum, std::size_t N>
[[nodiscard]] std::string_view name_of(Enum value, const std::array<std::string_view, N>& names) {
  const auto index = static_cast<std::size_t>(value);
  return index < N ? names[index] : std::string_view("invalid");
}

}  // namespace rockhopper::roce
