// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "roce/wire/bytes.h"

namespace rockhopper::wire {

/// FLUSH extended transport header (IBTA vol. 1, annex A19).
struct Feth {
  static constexpr std::size_t kSize = 4;

  /// Bits of `placement_type`.
  static constexpr std::uint8_t kGlobalVisibility = 1 << 0;
  static constexpr std::uint8_t kPersistence = 1 << 1;
  /// Values of `selectivity_level`.
  static constexpr std::uint8_t kMemoryRegionRange = 0;
  static constexpr std::uint8_t kMemoryRegion = 1;

  std::uint32_t reserved26;        ///< kept as received
  std::uint8_t selectivity_level;  ///< 2 bits
  std::uint8_t placement_type;     ///< 4 bits

  [[nodiscard]] static constexpr Feth parse(std::span<const std::uint8_t, kSize> bytes) {
    const std::uint32_t word = load_be32(bytes.data());
    return Feth{.reserved26 = word >> 6,
                .selectivity_level = static_cast<std::uint8_t>((word >> 4) & 0x3),
                .placement_type = static_cast<std::uint8_t>(word & 0xf)};
  }
  /// Bits of a field beyond its width are dropped.
  constexpr void emit(std::span<std::uint8_t, kSize> bytes) const {
    store_be32(bytes.data(),
               reserved26 << 6 | (selectivity_level & 0x3u) << 4 | (placement_type & 0xfu));
  }
  friend constexpr bool operator==(const Feth&, const Feth&) = default;
};

}  // namespace rockhopper::wire
