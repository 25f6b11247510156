// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The identification of IPv4 packets whose ICRC others computed, and of random ones.
#include "roce/wire/identification.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "roce/wire/icrc.h"
#include "tests/support/seed.h"

namespace rockhopper::wire::identification_test {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// CNP of a ConnectX-4 Lx, published in scapy's test suite. Its identification is 0x718c.
const Bytes kCnp{0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61,
                 0x0a, 0x00, 0x11, 0x01, 0x0a, 0x00, 0x12, 0x01, 0x00, 0x00, 0x12, 0xb7,
                 0x00, 0x28, 0x00, 0x00, 0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18,
                 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x82, 0xfd, 0x00, 0x2a};
/// UC SEND ONLY of a ConnectX, from there too. Its identification is 0x0478.
const Bytes kUcSend{0x45, 0x01, 0x00, 0x40, 0x04, 0x78, 0x40, 0x00, 0x40, 0x11, 0xb4, 0xd5, 0xc0,
                    0xa8, 0x00, 0x07, 0xc0, 0xa8, 0x00, 0x07, 0xc0, 0x00, 0x12, 0xb7, 0x00, 0x2c,
                    0xac, 0xa2, 0x24, 0x60, 0xff, 0xff, 0x00, 0x00, 0x00, 0xd3, 0x00, 0xcf, 0x17,
                    0x10, 0x46, 0x30, 0x81, 0x8b, 0xe2, 0x89, 0x35, 0xd9, 0x0e, 0x9a, 0x95, 0x50,
                    0x54, 0x01, 0xbe, 0x88, 0x5e, 0x50, 0x00, 0x00, 0x78, 0xf3, 0x53, 0xf3};

std::uint16_t identification_of(std::span<const std::uint8_t> packet, std::uint16_t likely = 0) {
  return find_identification(packet, identification_factor(packet.size()), likely);
}

/// As a socket leaves it.
Bytes without_identification(Bytes packet) {
  packet[4] = packet[5] = 0;
  return packet;
}

TEST(Identification_A17_3_3, OfPacketsOfHardware) {
  EXPECT_EQ(identification_of(without_identification(kCnp)), 0x718c);
  EXPECT_EQ(identification_of(without_identification(kUcSend)), 0x0478);
  // What routers change is in no ICRC.
  Bytes routed = without_identification(kCnp);
  routed[1] ^= 3;
  routed[8] -= 5;
  EXPECT_EQ(identification_of(routed), 0x718c);
}

TEST(Identification_A17_3_3, OfRandomPackets) {
  std::mt19937_64 random(test::seed());
  for (int run = 0; run < 3000; ++run) {
    const std::size_t options = run % 4 == 0 ? 4 * (random() % 10) : 0;
    Bytes packet(20 + options + 8 + 12 + random() % (run % 100 == 0 ? 65'000 : 5000));
    for (std::uint8_t& byte : packet) {
      byte = static_cast<std::uint8_t>(random());
    }
    packet[0] = static_cast<std::uint8_t>(0x40 | (5 + options / 4));
    const auto identification = static_cast<std::uint16_t>(packet[4] << 8 | packet[5]);
    const std::size_t l3_length = 20 + options + 8 + 12;
    std::array<std::uint8_t, Icrc::kSize> trailer{};
    store_icrc(icrc_over(std::span(packet).first(l3_length), std::span(packet).subspan(l3_length)),
               trailer);
    packet.insert(packet.end(), trailer.begin(), trailer.end());
    for (const std::uint16_t likely : {identification, static_cast<std::uint16_t>(random())}) {
      ASSERT_EQ(identification_of(without_identification(packet), likely), identification)
          << packet.size() << " bytes";
    }
  }
}

TEST(Identification_A17_3_3, NoneIsNeededWithZero) {
  Bytes packet = without_identification(kUcSend);
  const std::span<const std::uint8_t> bytes(packet);
  std::array<std::uint8_t, Icrc::kSize> trailer{};
  store_icrc(icrc_over(bytes.first(40), bytes.subspan(40, 20)), trailer);
  std::copy(trailer.begin(), trailer.end(), packet.end() - Icrc::kSize);
  EXPECT_EQ(identification_of(packet), 0);
}

TEST(Identification_A17_3_3, ChangesTheIcrcAsThePacketsChangeIt) {
  std::mt19937_64 random(test::seed());
  for (int run = 0; run < 1000; ++run) {
    Bytes packet(40 + random() % 5000);
    for (std::uint8_t& byte : packet) {
      byte = static_cast<std::uint8_t>(random());
    }
    const std::span<const std::uint8_t> bytes(packet);
    const auto icrc = [bytes] { return icrc_over(bytes.first(40), bytes.subspan(40)); };
    const auto identification = static_cast<std::uint16_t>(packet[4] << 8 | packet[5]);
    const std::uint32_t with = icrc();
    packet[4] = packet[5] = 0;
    const std::uint32_t factor = identification_factor(packet.size() + Icrc::kSize);
    ASSERT_EQ(identification_change(factor, identification), icrc() ^ with);
  }
}

/// Each bit that is wrong would need an identification of more than 16 bits.
TEST(Identification_A17_3_3, NoneMakesUpForAChangedBit) {
  for (std::size_t bit = 0; bit < 8 * kUcSend.size(); ++bit) {
    const std::size_t at = bit / 8;
    const bool masked =
        at == 1 || at == 8 || at == 10 || at == 11 || at == 26 || at == 27 || at == 32;
    if (at == 0 || at == 4 || at == 5 || masked) continue;
    Bytes packet = without_identification(kUcSend);
    packet[at] ^= static_cast<std::uint8_t>(1 << bit % 8);
    EXPECT_EQ(identification_of(packet), 0) << "bit " << bit;
  }
}

TEST(Identification_A17_3_3, NoneOfWhatIsNoPacket) {
  EXPECT_EQ(identification_of({}), 0);
  for (std::size_t size = 1; size < kCnp.size(); ++size) {
    Bytes packet(kCnp.begin(), kCnp.begin() + static_cast<std::ptrdiff_t>(size));
    (void)identification_of(packet);  // reads nothing behind it: sanitizers look
    packet[0] = 0x4f;
    (void)identification_of(packet);
    packet[0] = 0x40;
    EXPECT_EQ(identification_of(packet), 0) << "an IP header of 0 bytes";
  }
}

}  // namespace
}  // namespace rockhopper::wire::identification_test
