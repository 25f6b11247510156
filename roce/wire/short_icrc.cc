// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// The CRC is the remainder of the packet, a polynomial over GF(2), by a polynomial P of degree 32.
// Each block of 16 bytes is multiplied with what stands for its distance from the end, modulo P, by
// itself: none waits for another one. The sum of all is reduced at the end. Bits are reflected, so
// that the lowest bit of the first byte is the highest power of x, and a product of 64 by 64 bits
// comes out one power of x too low, which the factors make up for.
#include "roce/wire/short_icrc.h"

#include <cassert>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rockhopper::wire {

#if defined(__x86_64__)
namespace {

constexpr std::size_t kBlock = 16;
constexpr std::uint32_t kPolynomial = 0xedb88320;  ///< P without x^32, reflected

/// x^n modulo P, as a factor of 64 bits.
constexpr std::uint64_t power_of_x(unsigned n) {
  std::uint32_t power = 0x80000000;
  for (unsigned i = 0; i < n; ++i) {
    power = (power >> 1) ^ ((power & 1) != 0 ? kPolynomial : 0);
  }
  return std::uint64_t{power} << 32;
}

/// x^64 divided by P, without the remainder: 33 bits.
constexpr std::uint64_t reciprocal() {
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

/// What the two halves of a block are multiplied with.
struct alignas(kBlock) Factors {
  std::uint64_t earlier;
  std::uint64_t later;
};

/// By the number of blocks behind it; with the 32 bits of the CRC behind the last one.
constexpr auto kFactors = [] {
  std::array<Factors, kShortIcrcMax / kBlock + 1> factors{};
  for (unsigned i = 0; i < factors.size(); ++i) {
    factors[i] = {power_of_x(128 * i + 95), power_of_x(128 * i + 31)};
  }
  return factors;
}();
constexpr Factors kTo64Bits{power_of_x(63), 0};
constexpr Factors kTo32Bits{reciprocal(), std::uint64_t{kPolynomial} << 1 | 1};

/// Shuffles that leave the first n bytes of a block, at its end; from kShift[n] on.
constexpr auto kShift = [] {
  std::array<std::uint8_t, 2 * kBlock> shift{};
  for (std::size_t i = 0; i < kBlock; ++i) {
    shift[i] = 0x80;
    shift[kBlock + i] = static_cast<std::uint8_t>(i);
  }
  return shift;
}();
/// The four bytes of ones in front of these; from kOnes[n] on.
constexpr std::array<std::uint8_t, 2 * kBlock> kOnes{0, 0, 0, 0, 0,    0,    0,    0,
                                                     0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};

#define ROCKHOPPER_PRODUCTS [[gnu::target("pclmul,sse4.1"), gnu::always_inline]] inline

ROCKHOPPER_PRODUCTS __m128i load(const void* bytes) {
  return _mm_loadu_si128(static_cast<const __m128i*>(bytes));
}

ROCKHOPPER_PRODUCTS __m128i load_masked(const std::uint8_t* bytes, const std::uint8_t* ones) {
  return _mm_or_si128(load(bytes), load(ones));
}

ROCKHOPPER_PRODUCTS __m128i moved(__m128i block, const Factors& factors) {
  const __m128i by = load(&factors);
  return _mm_xor_si128(_mm_clmulepi64_si128(block, by, 0x00),
                       _mm_clmulepi64_si128(block, by, 0x11));
}

/// What is left of 96 bits, as products with a factor have.
ROCKHOPPER_PRODUCTS std::uint32_t remainder_of(__m128i sum) {
  const __m128i low_word = _mm_set_epi32(0, 0, 0, -1);
  const __m128i to_32 = load(&kTo32Bits);
  __m128i rest = _mm_xor_si128(_mm_clmulepi64_si128(sum, load(&kTo64Bits), 0x00), sum);
  rest = _mm_srli_si128(rest, 8);
  // Barrett's reduction: the quotient by P is known from the upper half alone.
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(rest, low_word), to_32, 0x00);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_word), to_32, 0x10);
  return static_cast<std::uint32_t>(_mm_extract_epi32(_mm_xor_si128(rest, quotient), 1));
}

}  // namespace

const bool kHasShortIcrc = __builtin_cpu_supports("pclmul") != 0 &&  //
                           __builtin_cpu_supports("sse4.1") != 0;

/// A CRC begins with ones that are added to the first 32 bits, and the ICRC with eight bytes of
/// ones: that makes four bytes of zeros, which count for nothing, and four of ones.
[[gnu::target("pclmul,sse4.1")]] std::uint32_t short_icrc(std::span<const std::uint8_t> packet,
                                                          const IcrcMask& mask) {
  assert(has_short_icrc(packet.size()));
  // The first block is filled up in front with zeros and these ones.
  const std::size_t first = (packet.size() + 3) % kBlock - 3;
  const std::size_t others = (packet.size() - first) / kBlock;
  const __m128i begin =
      _mm_or_si128(_mm_shuffle_epi8(load_masked(packet.data(), mask.data()), load(&kShift[first])),
                   load(&kOnes[first]));
  __m128i sum = moved(begin, kFactors[others]);
  for (std::size_t behind = others; behind-- > 0;) {
    const std::size_t at = packet.size() - (behind + 1) * kBlock;
    sum = _mm_xor_si128(sum,
                        moved(load_masked(packet.data() + at, mask.data() + at), kFactors[behind]));
  }
  return ~remainder_of(sum);
}

#undef ROCKHOPPER_PRODUCTS
#else
const bool kHasShortIcrc = false;

std::uint32_t short_icrc(std::span<const std::uint8_t> /*packet*/, const IcrcMask& /*mask*/) {
  assert(false);
  return 0;
}
#endif

}  // namespace rockhopper::wire
