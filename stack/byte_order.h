// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::stack {

/// The big-endian (network order) number in two bytes of any alignment. The caller vouches for the
/// bounds.
[[nodiscard]] constexpr std::uint16_t load_be16(const std::uint8_t* bytes) {
  return static_cast<std::uint16_t>(bytes[0] << 8 | bytes[1]);
}

}  // namespace rockhopper::stack
