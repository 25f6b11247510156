// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

/// Big-endian (network order) loads and stores on bytes of any alignment. The caller vouches for
/// the bounds; everything above works on fixed-size spans, so bounds are checked once a packet.
namespace rockhopper::wire {

namespace detail {

/// Compilers do not always see that bytes one by one make a word.
template <typename Word>
[[nodiscard]] constexpr Word in_network_order(Word value) {
  if constexpr (std::endian::native == std::endian::big) return value;
  if constexpr (sizeof(Word) == 2) return __builtin_bswap16(value);
  if constexpr (sizeof(Word) == 4) return __builtin_bswap32(value);
  if constexpr (sizeof(Word) == 8) return __builtin_bswap64(value);
}

template <typename Word>
[[nodiscard]] constexpr Word load(const std::uint8_t* p) {
  if (std::is_constant_evaluated()) {
    Word value = 0;
    for (std::size_t i = 0; i < sizeof value; ++i) {
      value = static_cast<Word>(value << 8 | p[i]);
    }
    return value;
  }
  Word value = 0;
  std::memcpy(&value, p, sizeof value);
  return in_network_order(value);
}

template <typename Word>
constexpr void store(std::uint8_t* p, Word value) {
  if (std::is_constant_evaluated()) {
    for (std::size_t i = sizeof value; i-- > 0; value = static_cast<Word>(value >> 8)) {
      p[i] = static_cast<std::uint8_t>(value);
    }
    return;
  }
  value = in_network_order(value);
  std::memcpy(p, &value, sizeof value);
}

}  // namespace detail

[[nodiscard]] constexpr std::uint16_t load_be16(const std::uint8_t* p) {
  return detail::load<std::uint16_t>(p);
}

[[nodiscard]] constexpr std::uint32_t load_be24(const std::uint8_t* p) {
  return std::uint32_t{p[0]} << 16 | std::uint32_t{p[1]} << 8 | std::uint32_t{p[2]};
}

[[nodiscard]] constexpr std::uint32_t load_be32(const std::uint8_t* p) {
  return detail::load<std::uint32_t>(p);
}

[[nodiscard]] constexpr std::uint64_t load_be64(const std::uint8_t* p) {
  return detail::load<std::uint64_t>(p);
}

constexpr void store_be16(std::uint8_t* p, std::uint16_t value) { detail::store(p, value); }

/// Stores the low 24 bits of `value`.
constexpr void store_be24(std::uint8_t* p, std::uint32_t value) {
  p[0] = static_cast<std::uint8_t>(value >> 16);
  p[1] = static_cast<std::uint8_t>(value >> 8);
  p[2] = static_cast<std::uint8_t>(value);
}

constexpr void store_be32(std::uint8_t* p, std::uint32_t value) { detail::store(p, value); }

constexpr void store_be64(std::uint8_t* p, std::uint64_t value) { detail::store(p, value); }

}  // namespace rockhopper::wire
