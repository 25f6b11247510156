// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::roce {

/// The value that a masked compare and swap leaves, as mlx5's extended atomics: where all bits of
/// `compare_mask` are those of `compare`, the bits of `swap_mask` become those of `swap`.
[[nodiscard]] constexpr std::uint64_t masked_compare_swap(std::uint64_t value,
                                                          std::uint64_t compare,
                                                          std::uint64_t compare_mask,
                                                          std::uint64_t swap,
                                                          std::uint64_t swap_mask) {
  return ((value ^ compare) & compare_mask) == 0 ? (value & ~swap_mask) | (swap & swap_mask)
                                                 : value;
}

/// The sum of two words of independent fields, of which `boundary` has the highest bit each: no
/// carry leaves a field. The highest field ends with the word, whether its bit is set or not.
[[nodiscard]] constexpr std::uint64_t masked_add(std::uint64_t value, std::uint64_t add,
                                                 std::uint64_t boundary) {
  // Without their highest bits, fields cannot overflow; these are added without carry.
  return ((value & ~boundary) + (add & ~boundary)) ^ ((value ^ add) & boundary);
}

}  // namespace rockhopper::roce
