// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string_view>

namespace rockhopper::stack {

// Quantities as people write them. Each function is false, and `value` undefined, for what is none.

/// A whole number: decimal, also with a power of ten behind it as 2e6, or hexadecimal with 0x.
[[nodiscard]] bool parse_unsigned(std::string_view text, std::uint64_t& value);
/// 1% or 0.01; 0 to 1.
[[nodiscard]] bool parse_probability(std::string_view text, double& value);
/// 250ns, 10us, 2ms, 1.5s; up to eleven days, so that sums stay far from overflow.
[[nodiscard]] bool parse_time(std::string_view text, std::uint64_t& ns);
/// 100Mbit, 2.5Gbit: bits a second, powers of ten; not 0, up to 10 Tbit.
[[nodiscard]] bool parse_rate(std::string_view text, std::uint64_t& bits_per_s);
/// 4096, 1e6, 200KiB, 4MiB, 64k, 1M (powers of two), 100kB, 1.5MB (powers of ten); up to 2^40.
[[nodiscard]] bool parse_bytes(std::string_view text, std::uint64_t& bytes);

}  // namespace rockhopper::stack
