// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// The CRC is the remainder of the bytes, a polynomial over GF(2), by a polynomial P of degree 32.
// Bits are reflected, so that the lowest bit of the first byte is the highest power of x, and a
// product of 64 by 64 bits comes out one power of x too low, which the factors make up for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace rockhopper::wire {

inline constexpr std::uint32_t kCrc32Polynomial = 0xedb88320;  ///< P without x^32, reflected

/// The product of two remainders, modulo P.
constexpr std::uint32_t crc32_product(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (; a != 0; a <<= 1) {
    product ^= (a >> 31) != 0 ? b : 0;
    b = (b >> 1) ^ ((b & 1) != 0 ? kCrc32Polynomial : 0);
  }
  return product;
}

/// x^n modulo P.
constexpr std::uint32_t crc32_power_of_x(unsigned n) {
  std::uint32_t power = 0x80000000;
  for (std::uint32_t square = 0x40000000; n != 0; n /= 2) {
    if (n % 2 != 0) power = crc32_product(power, square);
    square = crc32_product(square, square);
  }
  return power;
}

/// What the two halves of a block of 16 bytes are multiplied with.
struct alignas(16) Crc32Factors {
  std::uint64_t earlier;
  std::uint64_t later;
};

/// Moves a block by so many bits.
constexpr Crc32Factors crc32_factors(unsigned bits) {
  return {std::uint64_t{crc32_power_of_x(bits + 63)} << 32,
          std::uint64_t{crc32_power_of_x(bits - 1)} << 32};
}

/// x^64 divided by P, without the remainder: 33 bits.
constexpr std::uint64_t crc32_reciprocal() {
  constexpr std::uint64_t kAsWritten = 0x104c11db7;  // P, not reflected
  std::uint64_t quotient = 0;
  std::uint64_t rest = 0;
  for (unsigned bit = 0; bit <= 64; ++bit) {
    rest = rest << 1 | (bit == 0 ? 1 : 0);
    if ((rest >> 32) == 0) continue;
    rest ^= kAsWritten;
    quotient |= std::uint64_t{1} << (bit - 32);
  }
  return quotient;
}

/// 96 bits, as products with a factor have, become 64, and these their remainder.
inline constexpr Crc32Factors kCrc32To64Bits{std::uint64_t{crc32_power_of_x(63)} << 32, 0};
inline constexpr Crc32Factors kCrc32To32Bits{crc32_reciprocal(),
                                             std::uint64_t{kCrc32Polynomial} << 1 | 1};

/// The 256 remainders of a byte.
inline constexpr auto kCrc32OfByte = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t value = 0; value < table.size(); ++value) {
    std::uint32_t rest = value;
    for (int bit = 0; bit < 8; ++bit) {
      rest = (rest >> 1) ^ ((rest & 1) != 0 ? kCrc32Polynomial : 0);
    }
    table[value] = rest;
  }
  return table;
}();

/// Shuffles that leave the first n bytes of a block, at its end; from kCrc32Shift[n] on.
inline constexpr auto kCrc32Shift = [] {
  std::array<std::uint8_t, 32> shift{};
  for (std::size_t i = 0; i < 16; ++i) {
    shift[i] = 0x80;
    shift[16 + i] = static_cast<std::uint8_t>(i);
  }
  return shift;
}();

}  // namespace rockhopper::wire
