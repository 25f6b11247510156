// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "roce/wire/bytes.h"

namespace rockhopper::wire {

/// Reliable datagram extended transport header (IBTA vol. 1, 9.3).
struct Rdeth {
  static constexpr std::size_t kSize = 4;

  std::uint8_t reserved8;    ///< kept as received
  std::uint32_t ee_context;  ///< end-to-end context, 24 bits

  [[nodiscard]] static constexpr Rdeth parse(std::span<const std::uint8_t, kSize> bytes) {
    return Rdeth{.reserved8 = bytes[0], .ee_context = load_be24(&bytes[1])};
  }
  constexpr void emit(std::span<std::uint8_t, kSize> bytes) const {
    bytes[0] = reserved8;
    store_be24(&bytes[1], ee_context);
  }
  friend constexpr bool operator==(const Rdeth&, const Rdeth&) = default;
};

}  // namespace rockhopper::wire
