// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "roce/wire/bytes.h"

namespace rockhopper::wire {

/// Extended atomic header: ours, of opcode 0xDB (docs/wire.md).
struct Xaeth {
  static constexpr std::size_t kSize = 48;

  /// Values of `subtype`.
  static constexpr std::uint8_t kMaskedCompareSwap = 1;
  static constexpr std::uint8_t kMaskedFetchAdd = 2;

  std::uint8_t subtype;
  std::uint32_t reserved24;  ///< kept as received
  std::uint32_t rkey;
  std::uint64_t va;
  std::uint64_t compare;       ///< compare and swap: 0 otherwise
  std::uint64_t compare_mask;  ///< compare and swap: the bits that are compared; 0 otherwise
  std::uint64_t swap_add;
  std::uint64_t mask;  ///< the bits that are swapped; fetch and add: the highest bit of each field

  [[nodiscard]] static constexpr Xaeth parse(std::span<const std::uint8_t, kSize> bytes) {
    return Xaeth{.subtype = bytes[0],
                 .reserved24 = load_be24(&bytes[1]),
                 .rkey = load_be32(&bytes[4]),
                 .va = load_be64(&bytes[8]),
                 .compare = load_be64(&bytes[16]),
                 .compare_mask = load_be64(&bytes[24]),
                 .swap_add = load_be64(&bytes[32]),
                 .mask = load_be64(&bytes[40])};
  }
  constexpr void emit(std::span<std::uint8_t, kSize> bytes) const {
    bytes[0] = subtype;
    store_be24(&bytes[1], reserved24);
    store_be32(&bytes[4], rkey);
    store_be64(&bytes[8], va);
    store_be64(&bytes[16], compare);
    store_be64(&bytes[24], compare_mask);
    store_be64(&bytes[32], swap_add);
    store_be64(&bytes[40], mask);
  }
  friend constexpr bool operator==(const Xaeth&, const Xaeth&) = default;
};

}  // namespace rockhopper::wire
