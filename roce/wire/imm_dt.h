// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "roce/wire/bytes.h"

namespace rockhopper::wire {

/// Immediate data (IBTA vol. 1, 9.3).
struct ImmDt {
  static constexpr std::size_t kSize = 4;

  std::uint32_t data;

  [[nodiscard]] static constexpr ImmDt parse(std::span<const std::uint8_t, kSize> bytes) {
    return ImmDt{.data = load_be32(bytes.data())};
  }
  constexpr void emit(std::span<std::uint8_t, kSize> bytes) const {
    store_be32(bytes.data(), data);
  }
  friend constexpr bool operator==(const ImmDt&, const ImmDt&) = default;
};

}  // namespace rockhopper::wire
