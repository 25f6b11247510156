// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "roce/wire/bytes.h"

namespace rockhopper::wire {

/// Invalidate extended transport header (IBTA vol. 1, 9.3).
struct Ieth {
  static constexpr std::size_t kSize = 4;

  std::uint32_t rkey;  ///< the key that the responder is to invalidate

  [[nodiscard]] static constexpr Ieth parse(std::span<const std::uint8_t, kSize> bytes) {
    return Ieth{.rkey = load_be32(bytes.data())};
  }
  constexpr void emit(std::span<std::uint8_t, kSize> bytes) const {
    store_be32(bytes.data(), rkey);
  }
  friend constexpr bool operator==(const Ieth&, const Ieth&) = default;
};

}  // namespace rockhopper::wire
