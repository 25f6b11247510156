// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rockhopper::wire {

/// Connect header of the dynamically connected transport: ours (docs/wire.md). A CONNECT as 0xD8
/// carries it, of which only the opcode of the operation behind it is looked at here.
struct Dcch {
  static constexpr std::size_t kSize = 48;
  static constexpr std::size_t kOperationAt = 44;

  std::array<std::uint8_t, kSize> bytes;

  /// A DC opcode, see connect_data_info().
  [[nodiscard]] constexpr std::uint8_t operation() const { return bytes[kOperationAt]; }
  constexpr void set_operation(std::uint8_t opcode) { bytes[kOperationAt] = opcode; }

  [[nodiscard]] static constexpr Dcch parse(std::span<const std::uint8_t, kSize> from) {
    Dcch header;
    std::ranges::copy(from, header.bytes.begin());
    return header;
  }
  constexpr void emit(std::span<std::uint8_t, kSize> to) const {
    std::ranges::copy(bytes, to.begin());
  }
  friend constexpr bool operator==(const Dcch&, const Dcch&) = default;
};

}  // namespace rockhopper::wire
