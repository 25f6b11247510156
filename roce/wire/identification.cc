// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/wire/identification.h"

#include <array>
#include <cstddef>

#include "roce/wire/bth.h"
#include "roce/wire/icrc.h"

namespace rockhopper::wire {
namespace {

// A CRC without its initial value and final complement is linear: the difference of two ICRCs is
// the CRC of the packets' difference, which is an identification and zeros. Of a register, as here
// the coefficient of x^0 is in the highest bit, each zero byte multiplies the register by x^8
// modulo the polynomial.
constexpr std::uint32_t kReflectedPolynomial = 0xedb88320;
constexpr std::uint32_t kRegisterOne = 0x80000000;

constexpr std::uint32_t times_x(std::uint32_t a) {
  return a >> 1 ^ ((a & 1) != 0 ? kReflectedPolynomial : 0);
}

/// x^-1 times a: the polynomial has the term 1.
constexpr std::uint32_t over_x(std::uint32_t a) {
  return (a & kRegisterOne) != 0 ? (a ^ kReflectedPolynomial) << 1 | 1 : a << 1;
}

constexpr std::uint32_t product(std::uint32_t a, std::uint32_t b) {
  std::uint32_t sum = 0;
  for (std::uint32_t bit = kRegisterOne; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) sum ^= b;
    b = times_x(b);
  }
  return sum;
}

constexpr std::size_t kLengthBits = 16;

/// By k: x to the power of -8 * 2^k, which takes 2^k zero bytes back.
constexpr std::array<std::uint32_t, kLengthBits> make_backward() {
  std::array<std::uint32_t, kLengthBits> backward{};
  std::uint32_t power = kRegisterOne;
  for (int bit = 0; bit < 8; ++bit) {
    power = over_x(power);
  }
  for (std::uint32_t& entry : backward) {
    entry = power;
    power = product(power, power);
  }
  return backward;
}

constexpr std::array<std::uint32_t, kLengthBits> kBackward = make_backward();
static_assert(product(kBackward[0], 0x00800000) == kRegisterOne);  // x^-8 times x^8

constexpr std::size_t kShortestIpHeader = 20;
constexpr std::size_t kUdpHeaderLength = 8;
constexpr std::size_t kIdentificationAt = 4;

}  // namespace

std::uint16_t identification_of(std::span<const std::uint8_t> packet) {
  if (packet.empty() || packet.size() >> kLengthBits != 0) return 0;
  const std::size_t ip_length = std::size_t{4} * (packet[0] & 0xf);
  const std::size_t l3_length = ip_length + kUdpHeaderLength + Bth::kSize;
  if (ip_length < kShortestIpHeader || packet.size() < l3_length + Icrc::kSize) return 0;
  const std::size_t covered = packet.size() - Icrc::kSize;
  Icrc icrc;
  icrc.add_packet(packet.first(covered), l3_length);
  std::uint32_t difference = icrc.value() ^ load_icrc(packet.last<Icrc::kSize>());
  if (difference == 0) return 0;
  // Two bytes from a register of 0 are as much as the register with these in its low half, and two
  // zero bytes.
  const std::size_t zeros = covered - kIdentificationAt;
  for (std::size_t bit = 0; bit < kLengthBits; ++bit) {
    if ((zeros >> bit & 1) != 0) difference = product(difference, kBackward[bit]);
  }
  if (difference >> 16 != 0) return 0;
  return static_cast<std::uint16_t>((difference & 0xff) << 8 | difference >> 8);
}

}  // namespace rockhopper::wire
