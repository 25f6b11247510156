// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Each block of 16 bytes is multiplied with what stands for its distance from the end, modulo P, by
// itself: none waits for another one. The sum of all is reduced at the end.
#include "roce/wire/short_icrc.h"

#include <cassert>

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
  const __m128i head = _mm_xor_si128(block(0), _mm_cvtsi32_si128(static_cast<int>(begin)));
  __m128i sum = moved(_mm_shuffle_epi8(head, load(&kCrc32Shift[first])), kFactors[behind]);
  const auto add = [&](std::size_t from_end) ROCKHOPPER_PRODUCTS_LAMBDA {
    sum = _mm_xor_si128(sum, moved(block(size - (from_end + 1) * kBlock), kFactors[from_end]));
  };
  for (std::size_t from_end = behind; from_end > 4; --from_end) {
    add(from_end - 1);
  }
  // Most packets have so few blocks; without a loop their places are known.
  switch (behind) {
    default:
      add(3);
      [[fallthrough]];
    case 3:
      add(2);
      [[fallthrough]];
    case 2:
      add(1);
      [[fallthrough]];
    case 1:
      add(0);
      [[fallthrough]];
    case 0:
      break;
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

}  // namespace

const bool kHasShortIcrc = __builtin_cpu_supports("pclmul") != 0 &&
                           __builtin_cpu_supports("sse4.1") != 0 &&
                           &crc32_kernel() != &crc32_kernels().front();

[[gnu::target("pclmul,sse4.1")]] std::uint32_t short_icrc(std::span<const std::uint8_t> packet,
                                                          const IcrcMask& mask) {
  assert(has_short_icrc(packet.size()));
  const std::uint8_t* bytes = packet.data();
  const std::uint8_t* ones = mask.data();
  return ~remainder_of(
      sum_of(packet.size(), kBehindOnes, [bytes, ones](std::size_t at) ROCKHOPPER_PRODUCTS_LAMBDA {
        return _mm_or_si128(load(bytes + at), load(ones + at));
      }));
}

[[gnu::target("pclmul,sse4.1")]] std::uint32_t short_icrc_behind(
    std::uint32_t begin, bool is_ipv6, std::span<const std::uint8_t> transport) {
  assert(transport.size() % 4 == 0 && transport.size() >= kBthBytes &&
         transport.size() <= kShortIcrcMax);
  const std::uint8_t* bytes = transport.data();
  const __m128i sum =
      sum_of(transport.size(), begin,
             [bytes](std::size_t at) ROCKHOPPER_PRODUCTS_LAMBDA { return load(bytes + at); });
  return ~(remainder_of(sum) ^ kKnownByLength[is_ipv6 ? 1 : 0][transport.size() / 4]);
}

#undef ROCKHOPPER_PRODUCTS_LAMBDA
#undef ROCKHOPPER_PRODUCTS
#else
const bool kHasShortIcrc = false;

std::uint32_t short_icrc(std::span<const std::uint8_t> /*packet*/, const IcrcMask& /*mask*/) {
  assert(false);
  return 0;
}

std::uint32_t short_icrc_behind(std::uint32_t /*begin*/, bool /*is_ipv6*/,
                                std::span<const std::uint8_t> /*transport*/) {
  assert(false);
  return 0;
}
#endif

}  // namespace rockhopper::wire
