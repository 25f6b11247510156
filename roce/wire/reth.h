// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "roce/wire/bytes.h"

namespace rockhopper::wire {

/// RDMA extended transport header (IBTA vol. 1, 9.3).
struct Reth {
  static constexpr std::size_t kSize = 16;

  std::uint64_t va;  ///< remote virtual address
  std::uint32_t rkey;
  std::uint32_t length;  ///< bytes of the whole message, 0 to 2^31

  [[nodiscard]] static constexpr Reth parse(std::span<const std::uint8_t, kSize> bytes) {
    return Reth{
        .va = load_be64(&bytes[0]), .rkey = load_be32(&bytes[8]), .length = load_be32(&bytes[12])};
  }
  constexpr void emit(std::span<std::uint8_t, kSize> bytes) const {
    store_be64(&bytes[0], va);
    store_be32(&bytes[8], rkey);
    store_be32(&bytes[12], length);
  }
  friend constexpr bool operator==(const Reth&, const Reth&) = default;
};

}  // namespace rockhopper::wire
