// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "roce/wire/bytes.h"
#include "roce/wire/qpn.h"

namespace rockhopper::wire {

/// Datagram extended transport header (IBTA vol. 1, 9.3).
struct Deth {
  static constexpr std::size_t kSize = 8;

  std::uint32_t qkey;
  std::uint8_t reserved8;  ///< kept as received
  Qpn source;

  [[nodiscard]] static constexpr Deth parse(std::span<const std::uint8_t, kSize> bytes) {
    return Deth{
        .qkey = load_be32(&bytes[0]), .reserved8 = bytes[4], .source = Qpn{load_be24(&bytes[5])}};
  }
  constexpr void emit(std::span<std::uint8_t, kSize> bytes) const {
    store_be32(&bytes[0], qkey);
    bytes[4] = reserved8;
    store_be24(&bytes[5], source.value);
  }
  friend constexpr bool operator==(const Deth&, const Deth&) = default;
};

}  // namespace rockhopper::wire
