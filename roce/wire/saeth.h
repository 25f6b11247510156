// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rockhopper::wire {

/// Selective acknowledge extended header: ours, of opcode 0xD5 (docs/wire.md). A bitmap of what the
/// responder holds behind a missing packet: bit n is that of the PSN n + 1 after the BTH's, which
/// is the missing one. Bit n is bit n % 8, counted from the least significant, of byte n / 8.
struct Saeth {
  static constexpr std::uint32_t kBits = 256;
  static constexpr std::size_t kSize = kBits / 8;

  std::array<std::uint64_t, kBits / 64> words;  ///< bit n is bit n % 64 of word n / 64

  [[nodiscard]] constexpr bool test(std::uint32_t bit) const {
    return (words[bit / 64] >> (bit % 64) & 1) != 0;
  }
  constexpr void set(std::uint32_t bit) { words[bit / 64] |= std::uint64_t{1} << (bit % 64); }
  /// Bits from 0 through the highest that is set; 0: none is.
  [[nodiscard]] constexpr std::uint32_t length() const {
    for (std::size_t word = words.size(); word > 0; --word) {
      if (words[word - 1] != 0) {
        return static_cast<std::uint32_t>(64 * word) -
               static_cast<std::uint32_t>(std::countl_zero(words[word - 1]));
      }
    }
    return 0;
  }
  /// What the bits mean to a PSN that is `count` further on.
  constexpr void shift(std::uint32_t count) {
    if (count >= kBits) {
      words = {};
      return;
    }
    const std::size_t whole = count / 64;
    const unsigned rest = count % 64;
    for (std::size_t word = 0; word < words.size(); ++word) {
      const auto at = [&](std::size_t index) { return index < words.size() ? words[index] : 0; };
      words[word] = at(word + whole) >> rest;
      if (rest != 0) words[word] |= at(word + whole + 1) << (64 - rest);
    }
  }

  [[nodiscard]] static constexpr Saeth parse(std::span<const std::uint8_t, kSize> bytes) {
    Saeth saeth{};
    for (std::size_t i = 0; i < kSize; ++i) {
      saeth.words[i / 8] |= std::uint64_t{bytes[i]} << (8 * (i % 8));
    }
    return saeth;
  }
  constexpr void emit(std::span<std::uint8_t, kSize> bytes) const {
    for (std::size_t i = 0; i < kSize; ++i) {
      bytes[i] = static_cast<std::uint8_t>(words[i / 8] >> (8 * (i % 8)));
    }
  }
  friend constexpr bool operator==(const Saeth&, const Saeth&) = default;
};

}  // namespace rockhopper::wire
