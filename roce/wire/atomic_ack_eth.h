// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "roce/wire/bytes.h"

namespace rockhopper::wire {

/// Atomic acknowledge extended transport header (IBTA vol. 1, 9.3).
struct AtomicAckEth {
  static constexpr std::size_t kSize = 8;

  std::uint64_t original;  ///< the remote value before the operation

  [[nodiscard]] static constexpr AtomicAckEth parse(std::span<const std::uint8_t, kSize> bytes) {
    return AtomicAckEth{.original = load_be64(bytes.data())};
  }
  constexpr void emit(std::span<std::uint8_t, kSize> bytes) const {
    store_be64(bytes.data(), original);
  }
  friend constexpr bool operator==(const AtomicAckEth&, const AtomicAckEth&) = default;
};

}  // namespace rockhopper::wire
