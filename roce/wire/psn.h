// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <compare>
#include <cstdint>

namespace rockhopper::wire {

/// Range of every 24-bit number in the transport headers (PSN, QPN, MSN, EE context, XRCSRQ).
inline constexpr std::uint32_t kMask24 = 0xffffff;

/// A packet sequence number: 24 bits, counting modulo 2^24 (IBTA vol. 1, 9.7.1). It has no order
/// of its own; compare with distance().
struct Psn {
  std::uint32_t value = 0;  ///< 0 to 2^24 - 1

  /// Keeps the low 24 bits of `value`.
  [[nodiscard]] static constexpr Psn make(std::uint32_t value) { return Psn{value & kMask24}; }

  friend constexpr bool operator==(Psn, Psn) = default;
};

[[nodiscard]] constexpr Psn operator+(Psn psn, std::uint32_t count) {
  return Psn::make(psn.value + count);
}

[[nodiscard]] constexpr Psn operator-(Psn psn, std::uint32_t count) {
  return Psn::make(psn.value - count);
}

/// `to` - `from` on the 24-bit circle, in [-2^23, 2^23): positive when `to` is ahead of `from`.
[[nodiscard]] constexpr std::int32_t distance(Psn from, Psn to) {
  constexpr std::uint32_t kHalf = 0x800000;
  const std::uint32_t ahead = (to.value - from.value + kHalf) & kMask24;
  return static_cast<std::int32_t>(ahead) - static_cast<std::int32_t>(kHalf);
}

}  // namespace rockhopper::wire
