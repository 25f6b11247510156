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

/// By k: `step` to the power of 8 * 2^k, as for 2^k zero bytes.
constexpr std::array<std::uint32_t, kLengthBits> powers_of(std::uint32_t (*step)(std::uint32_t)) {
  std::array<std::uint32_t, kLengthBits> powers{};
  std::uint32_t power = kRegisterOne;
  for (int bit = 0; bit < 8; ++bit) {
    power = step(power);
  }
  for (std::uint32_t& entry : powers) {
    entry = power;
    power = product(power, power);
  }
  return powers;
}

constexpr std::array<std::uint32_t, kLengthBits> kForward = powers_of(&times_x);
constexpr std::array<std::uint32_t, kLengthBits> kBackward = powers_of(&over_x);
static_assert(product(kBackward[0], kForward[0]) == kRegisterOne);

std::uint32_t power(const std::array<std::uint32_t, kLengthBits>& powers, std::size_t bytes) {
  std::uint32_t result = kRegisterOne;
  for (std::size_t bit = 0; bit < kLengthBits; ++bit) {
    if ((bytes >> bit & 1) != 0) result = product(result, powers[bit]);
  }
  return result;
}

constexpr std::size_t kShortestIpHeader = 20;
constexpr std::size_t kUdpHeaderLength = 8;
constexpr std::size_t kIdentificationAt = 4;

constexpr std::uint16_t swapped(std::uint32_t value) {
  return static_cast<std::uint16_t>((value & 0xff) << 8 | (value >> 8 & 0xff));
}

/// Two bytes from a register of 0 are as much as the register with these in its low half, and two
/// zero bytes: so many follow the identification then.
std::size_t zeros_of(std::size_t length) { return length - Icrc::kSize - kIdentificationAt; }

}  // namespace

std::uint32_t identification_factor(std::size_t length) {
  return length < Icrc::kSize + kIdentificationAt ? 0 : power(kForward, zeros_of(length));
}

std::uint32_t identification_change(std::uint32_t factor, std::uint16_t identification) {
  return product(swapped(identification), factor);
}

std::uint16_t find_identification(std::span<const std::uint8_t> packet, std::uint32_t factor,
                                  std::uint16_t likely) {
  if (packet.empty() || packet.size() >> kLengthBits != 0) return 0;
  const std::size_t ip_length = std::size_t{4} * (packet[0] & 0xf);
  const std::size_t l3_length = ip_length + kUdpHeaderLength + Bth::kSize;
  if (ip_length < kShortestIpHeader || packet.size() < l3_length + Icrc::kSize) return 0;
  const std::size_t covered = packet.size() - Icrc::kSize;
  Icrc icrc;
  icrc.add_packet(packet.first(covered), l3_length);
  const std::uint32_t difference = icrc.value() ^ load_icrc(packet.last<Icrc::kSize>());
  if (difference == 0) return 0;
  if (likely != 0 && difference == identification_change(factor, likely)) return likely;
  const std::uint32_t at_once = product(difference, power(kBackward, zeros_of(packet.size())));
  return at_once >> 16 != 0 ? 0 : swapped(at_once);
}

}  // namespace rockhopper::wire
