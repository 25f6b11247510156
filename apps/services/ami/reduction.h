// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>

namespace rockhopper::ami {

/// The type of the elements of a vector that is reduced; each has 8 bytes.
enum class ElementType : std::uint8_t { int64 = 1, uint64 = 2, float64 = 3 };

inline constexpr std::size_t kElementBytes = 8;

/// Sums of integers wrap around. If an operand is no number, sum, min and max are the positive
/// quiet NaN without payload. Of -0 and 0, min and max are the lower operand.
enum class Reduction : std::uint8_t { sum = 1, min = 2, max = 3, bit_and = 4, bit_or = 5 };

/// All are for integers; bit_and and bit_or are not for float64.
[[nodiscard]] bool is_defined(Reduction reduction, ElementType type);

/// `result` becomes `lower` op `upper`, `count` elements of any alignment in the processor's byte
/// order; it may be one of the two. The same operands give the same bits. Only what is_defined().
void reduce(Reduction reduction, ElementType type, const std::byte* lower, const std::byte* upper,
            std::byte* result, std::size_t count);

}  // namespace rockhopper::ami
