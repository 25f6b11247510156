// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rockhopper::wire {

/// The reserved bytes that follow the BTH of a congestion notification packet (IBTA vol. 1, annex
/// A17.9.3). Sent as zero, ignored on receipt.
struct CnpReserved {
  static constexpr std::size_t kSize = 16;

  std::array<std::uint8_t, kSize> bytes;  ///< kept as received

  [[nodiscard]] static constexpr CnpReserved parse(std::span<const std::uint8_t, kSize> from) {
    CnpReserved result;
    std::copy(from.begin(), from.end(), result.bytes.begin());
    return result;
  }
  constexpr void emit(std::span<std::uint8_t, kSize> to) const {
    std::copy(bytes.begin(), bytes.end(), to.begin());
  }
  friend constexpr bool operator==(const CnpReserved&, const CnpReserved&) = default;
};

}  // namespace rockhopper::wire
