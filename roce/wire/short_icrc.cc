// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Each block of 16 bytes is multiplied with what stands for its distance from the end, modulo P, by
// itself: none waits for another one. The sum of all is reduced at the end.
#include "roce/wire/short_icrc.h"

#include <array>
#include <cassert>
#include <utility>

#include "roce/wire/crc32.h"
#include "roce/wire/crc32_factors.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rockhopper::wire {

#if defined(__x86_64__)
namespace {

constexpr std::size_t kBlock = 16;

/// By the number of blocks behind it; with the 32 bits of the CRC behind the last one.
constexpr auto kFactors = [] {
  std::array<Crc32Factors, kShortIcrcMax / kBlock + 1> factors{};
  for (unsigned i = 0; i < factors.size(); ++i) {
    factors[i] = crc32_factors(128 * i + 32);
  }
  return factors;
}();

constexpr std::size_t kUdpBytes = 8;
constexpr std::size_t kBthBytes = 12;
constexpr std::size_t kIcrcBytes = 4;

/// What a packet's lengths, and the ones in its BTH, add to the CRC of the packet without them.
constexpr std::uint32_t known_by_length(bool is_ipv6, std::size_t transport) {
  const std::size_t ip_header = is_ipv6 ? 40 : 20;
  const std::size_t udp_length = kUdpBytes + transport + kIcrcBytes;
  const std::size_t ip_length = is_ipv6 ? udp_length : ip_header + udp_length;
  std::array<std::uint8_t, 40 + kUdpBytes + kShortIcrcMax> bytes{};
  const auto put = [&bytes](std::size_t offset, std::size_t value) {
    bytes[offset] = static_cast<std::uint8_t>(value >> 8);
    bytes[offset + 1] = static_cast<std::uint8_t>(value);
  };
  put(is_ipv6 ? 4 : 2, ip_length);
  put(ip_header + 4, udp_length);
  bytes[ip_header + kUdpBytes + 4] = 0xff;
  std::uint32_t crc = 0;
  for (std::size_t i = 0; i < ip_header + kUdpBytes + transport; ++i) {
    crc = crc >> 8 ^ kCrc32OfByte[(crc ^ bytes[i]) & 0xff];
  }
  return crc;
}

/// By whether it is IPv6, and a quarter of the transport's bytes.
constexpr auto kKnownByLength = [] {
  std::array<std::array<std::uint32_t, kShortIcrcMax / 4 + 1>, 2> known{};
  for (std::size_t quarter = kBthBytes / 4; quarter <= kShortIcrcMax / 4; ++quarter) {
    known[0][quarter] = known_by_length(false, quarter * 4);
    known[1][quarter] = known_by_length(true, quarter * 4);
  }
  return known;
}();

/// The CRC behind the eight bytes of ones that the ICRC begins with.
constexpr std::uint32_t kBehindOnes = 0xdebb20e3;

#define ROCKHOPPER_PRODUCTS [[gnu::target("pclmul,sse4.1"), gnu::always_inline]] inline
#define ROCKHOPPER_PRODUCTS_LAMBDA __attribute__((target("pclmul,sse4.1"), always_inline))

ROCKHOPPER_PRODUCTS __m128i load(const void* bytes) {
  return _mm_loadu_si128(static_cast<const __m128i*>(bytes));
}

ROCKHOPPER_PRODUCTS __m128i moved(__m128i block, const Crc32Factors& factors) {
  const __m128i by = load(&factors);
  return _mm_xor_si128(_mm_clmulepi64_si128(block, by, 0x00),
                       _mm_clmulepi64_si128(block, by, 0x11));
}

/// The sum of all blocks, 1 to 12, of so many bytes, each moved to its place. `block(at)` gives the
/// one that begins at byte `at`; the first may be shorter, and has the CRC `begin` added to its
/// first 32 bits, as what is known of the bytes before.
template <typename Block>
ROCKHOPPER_PRODUCTS __m128i sum_of(std::size_t size, std::uint32_t begin, Block block) {
  const std::size_t first = (size - 1) % kBlock + 1;
  const std::size_t behind = (size - first) / kBlock;
  __m128i head = _mm_xor_si128(block(0), _mm_cvtsi32_si128(static_cast<int>(begin)));
  if (first < kBlock) head = _mm_shuffle_epi8(head, load(&kCrc32Shift[first]));
  __m128i sum = moved(head, kFactors[behind]);
  for (std::size_t from_end = behind; from_end > 0; --from_end) {
    sum = _mm_xor_si128(sum, moved(block(size - from_end * kBlock), kFactors[from_end - 1]));
  }
  return sum;
}

/// What is left of 96 bits, as products with a factor have.
ROCKHOPPER_PRODUCTS std::uint32_t remainder_of(__m128i sum) {
  const __m128i low_word = _mm_set_epi32(0, 0, 0, -1);
  const __m128i to_32 = load(&kCrc32To32Bits);
  __m128i rest = _mm_xor_si128(_mm_clmulepi64_si128(sum, load(&kCrc32To64Bits), 0x00), sum);
  rest = _mm_srli_si128(rest, 8);
  // Barrett's reduction: the quotient by P is known from the upper half alone.
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(rest, low_word), to_32, 0x00);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_word), to_32, 0x10);
  return static_cast<std::uint32_t>(_mm_extract_epi32(_mm_xor_si128(rest, quotient), 1));
}

/// The ICRC of `size` bytes with ones in them. Where the size is a constant, as in nearly all short
/// packets, there is neither a loop nor a branch.
ROCKHOPPER_PRODUCTS std::uint32_t icrc_of(const std::uint8_t* bytes, const std::uint8_t* ones,
                                          std::size_t size) {
  return ~remainder_of(
      sum_of(size, kBehindOnes, [bytes, ones](std::size_t at) ROCKHOPPER_PRODUCTS_LAMBDA {
        return _mm_or_si128(load(bytes + at), load(ones + at));
      }));
}
/// The CRC of `size` bytes behind others.
ROCKHOPPER_PRODUCTS std::uint32_t crc_behind(std::uint32_t begin, const std::uint8_t* bytes,
                                             std::size_t size) {
  return remainder_of(sum_of(size, begin, [bytes](std::size_t at) ROCKHOPPER_PRODUCTS_LAMBDA {
    return load(bytes + at);
  }));
}

/// Sizes of up to so many quarters have functions of their own.
constexpr std::size_t kOwnMax = 24;
/// Stands for all larger ones.
constexpr std::size_t kAnySize = 0;

template <std::size_t kQuarters>
[[gnu::target("pclmul,sse4.1")]] std::uint32_t icrc_of_size(const std::uint8_t* bytes,
                                                            const IcrcMask& mask,
                                                            std::size_t size) {
  return icrc_of(bytes, mask.data(), kQuarters == kAnySize ? size : kQuarters * 4);
}
template <bool kIpv6, std::size_t kQuarters>
[[gnu::target("pclmul,sse4.1")]] std::uint32_t icrc_behind_of_size(std::uint32_t begin,
                                                                   const std::uint8_t* bytes,
                                                                   std::size_t size) {
  const std::size_t quarters = kQuarters == kAnySize ? size / 4 : kQuarters;
  return ~(crc_behind(begin, bytes, quarters * 4) ^ kKnownByLength[kIpv6 ? 1 : 0][quarters]);
}

/// The functions of all sizes, made by `of<size>()`, by a quarter of the size.
template <typename Function, typename Of>
constexpr auto by_size(Of of) {
  return [of]<std::size_t... kQuarters>(std::index_sequence<kQuarters...>) {
    return std::array<Function, kShortIcrcSizes>{
        of.template operator()<(kQuarters <= kOwnMax ? kQuarters : kAnySize)>()...};
  }
  (std::make_index_sequence<kShortIcrcSizes>());
}

}  // namespace

const bool kHasShortIcrc = __builtin_cpu_supports("pclmul") != 0 &&
                           __builtin_cpu_supports("sse4.1") != 0 &&
                           &crc32_kernel() != &crc32_kernels().front();

constexpr std::array<ShortIcrc*, kShortIcrcSizes> kShortIcrc =
    by_size<ShortIcrc*>([]<std::size_t kQuarters> { return &icrc_of_size<kQuarters>; });
constexpr std::array<ShortIcrcBehind*, kShortIcrcSizes> kShortIcrcBehindIpv4 =
    by_size<ShortIcrcBehind*>(
        []<std::size_t kQuarters> { return &icrc_behind_of_size<false, kQuarters>; });
constexpr std::array<ShortIcrcBehind*, kShortIcrcSizes> kShortIcrcBehindIpv6 =
    by_size<ShortIcrcBehind*>(
        []<std::size_t kQuarters> { return &icrc_behind_of_size<true, kQuarters>; });

#undef ROCKHOPPER_PRODUCTS_LAMBDA
#undef ROCKHOPPER_PRODUCTS
#else
const bool kHasShortIcrc = false;
const std::array<ShortIcrc*, kShortIcrcSizes> kShortIcrc{};
const std::array<ShortIcrcBehind*, kShortIcrcSizes> kShortIcrcBehindIpv4{};
const std::array<ShortIcrcBehind*, kShortIcrcSizes> kShortIcrcBehindIpv6{};
#endif

}  // namespace rockhopper::wire
