// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

/// Big-endian (network order) loads and stores on bytes of any alignment. The caller vouches for
/// the bounds; everything above works on fixed-size spans, so bounds are checked once a packet.
namespace rockhopper::wire {

[[nodiscard]] constexpr std::uint16_t load_be16(const std::uint8_t* p) {
  return static_cast<std::uint16_t>((p[0] << 8) | p[1]);
}

[[nodiscard]] constexpr std::uint32_t load_be24(const std::uint8_t* p) {
  return std::uint32_t{p[0]} << 16 | std::uint32_t{p[1]} << 8 | std::uint32_t{p[2]};
}

[[nodiscard]] constexpr std::uint32_t load_be32(const std::uint8_t* p) {
  return std::uint32_t{p[0]} << 24 | std::uint32_t{p[1]} << 16 | std::uint32_t{p[2]} << 8 |
         std::uint32_t{p[3]};
}

[[nodiscard]] constexpr std::uint64_t load_be64(const std::uint8_t* p) {
  return std::uint64_t{load_be32(p)} << 32 | load_be32(p + 4);
}

constexpr void store_be16(std::uint8_t* p, std::uint16_t value) {
  p[0] = static_cast<std::uint8_t>(value >> 8);
  p[1] = static_cast<std::uint8_t>(value);
}

/// Stores the low 24 bits of `value`.
constexpr void store_be24(std::uint8_t* p, std::uint32_t value) {
  p[0] = static_cast<std::uint8_t>(value >> 16);
  p[1] = static_cast<std::uint8_t>(value >> 8);
  p[2] = static_cast<std::uint8_t>(value);
}

constexpr void store_be32(std::uint8_t* p, std::uint32_t value) {
  p[0] = static_cast<std::uint8_t>(value >> 24);
  store_be24(p + 1, value);
}

constexpr void store_be64(std::uint8_t* p, std::uint64_t value) {
  store_be32(p, static_cast<std::uint32_t>(value >> 32));
  store_be32(p + 4, static_cast<std::uint32_t>(value));
}

}  // namespace rockhopper::wire
