// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "roce/wire/bytes.h"

namespace rockhopper::wire {

/// Atomic extended transport header (IBTA vol. 1, 9.3).
struct AtomicEth {
  static constexpr std::size_t kSize = 28;

  std::uint64_t va;  ///< remote virtual address, to be a multiple of 8
  std::uint32_t rkey;
  std::uint64_t swap_add;  ///< the value to swap in (CmpSwap) or to add (FetchAdd)
  std::uint64_t compare;   ///< CmpSwap only

  [[nodiscard]] static constexpr AtomicEth parse(std::span<const std::uint8_t, kSize> bytes) {
    return AtomicEth{.va = load_be64(&bytes[0]),
                     .rkey = load_be32(&bytes[8]),
                     .swap_add = load_be64(&bytes[12]),
                     .compare = load_be64(&bytes[20])};
  }
  constexpr void emit(std::span<std::uint8_t, kSize> bytes) const {
    store_be64(&bytes[0], va);
    store_be32(&bytes[8], rkey);
    store_be64(&bytes[12], swap_add);
    store_be64(&bytes[20], compare);
  }
  friend constexpr bool operator==(const AtomicEth&, const AtomicEth&) = default;
};

}  // namespace rockhopper::wire
