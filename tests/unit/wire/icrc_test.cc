// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The ICRC against packets whose ICRC others computed, and against a bit-by-bit CRC-32.
#include "roce/wire/icrc.h"

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "roce/wire/bth.h"
#include "tests/support/crc32.h"
#include "tests/support/seed.h"

namespace rockhopper::wire::icrc_test {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// IPv4 and UDP headers and BTH of a packet, the bytes after them, and its ICRC as on the wire.
struct Golden {
  const char* origin;
  Bytes l3;
  Bytes rest;
  std::array<std::uint8_t, 4> icrc;
};

const Golden kCnp = {
    "CNP of a ConnectX-4 Lx, published in scapy's test suite",
    {0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61, 0x0a, 0x00,
     0x11, 0x01, 0x0a, 0x00, 0x12, 0x01, 0x00, 0x00, 0x12, 0xb7, 0x00, 0x28, 0x00, 0x00,
     0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18, 0x00, 0x00, 0x00, 0x00},
    Bytes(16, 0),
    {0x82, 0xfd, 0x00, 0x2a}};

const Golden kUcSend = {
    "UC SEND ONLY of a ConnectX, published in scapy's test suite",
    {0x45, 0x01, 0x00, 0x40, 0x04, 0x78, 0x40, 0x00, 0x40, 0x11, 0xb4, 0xd5, 0xc0, 0xa8,
     0x00, 0x07, 0xc0, 0xa8, 0x00, 0x07, 0xc0, 0x00, 0x12, 0xb7, 0x00, 0x2c, 0xac, 0xa2,
     0x24, 0x60, 0xff, 0xff, 0x00, 0x00, 0x00, 0xd3, 0x00, 0xcf, 0x17, 0x10},
    {0x46, 0x30, 0x81, 0x8b, 0xe2, 0x89, 0x35, 0xd9, 0x0e, 0x9a,
     0x95, 0x50, 0x54, 0x01, 0xbe, 0x88, 0x5e, 0x50, 0x00, 0x00},
    {0x78, 0xf3, 0x53, 0xf3}};

TEST(Icrc_A17_3_3, AgreesWithHardware) {
  for (const Golden& golden : {kCnp, kUcSend}) {
    std::array<std::uint8_t, Icrc::kSize> trailer;
    store_icrc(icrc_over(golden.l3, golden.rest), trailer);
    EXPECT_EQ(trailer, golden.icrc) << golden.origin;
    EXPECT_EQ(load_icrc(golden.icrc), icrc_over(golden.l3, golden.rest)) << golden.origin;
  }
}

TEST(Icrc_A17_3_3, StartsFromEightBytesOfOnes) {
  EXPECT_EQ(Icrc().value(), test::crc32(Bytes(8, 0xff)));
  EXPECT_EQ(Icrc().value(), ~0xdebb20e3u);
}

TEST(Icrc_A17_3_3, TravelsLeastSignificantByteFirst) {
  std::array<std::uint8_t, 4> trailer;
  store_icrc(0x04030201, trailer);
  EXPECT_EQ(trailer, (std::array<std::uint8_t, 4>{1, 2, 3, 4}));
  EXPECT_EQ(load_icrc(trailer), 0x04030201u);
}

Bytes random_bytes(std::mt19937_64& random, std::size_t size) {
  Bytes bytes(size);
  for (auto& byte : bytes) {
    byte = static_cast<std::uint8_t>(random());
  }
  return bytes;
}

/// Random header bytes of one kind of packet and the offsets in them that the ICRC replaces by
/// ones; of IPv6's first byte only the low half.
struct L3Case {
  const char* name;
  std::size_t ip_header;
  std::uint8_t first_byte;
  std::vector<std::size_t> ip_masked;
};

const L3Case kL3Cases[] = {{"IPv4", 20, 0x45, {1, 8, 10, 11}},
                           {"IPv4 with 4 bytes of options", 24, 0x46, {1, 8, 10, 11}},
                           {"IPv4 with 40 bytes of options", 60, 0x4f, {1, 8, 10, 11}},
                           {"IPv6", 40, 0x60, {1, 2, 3, 7}},
                           {"IPv6 with an extension header", 48, 0x6a, {1, 2, 3, 7}}};

Bytes masked(const L3Case& l3_case, Bytes l3) {
  if (l3_case.first_byte >> 4 == 6) l3[0] |= 0x0f;
  for (const std::size_t offset : l3_case.ip_masked) {
    l3[offset] = 0xff;
  }
  l3[l3_case.ip_header + 6] = 0xff;
  l3[l3_case.ip_header + 7] = 0xff;
  l3[l3_case.ip_header + 8 + 4] = 0xff;
  return l3;
}

TEST(Icrc_A17_3_3, EqualsABitwiseCrcOverTheMaskedPacket) {
  std::mt19937_64 random(test::seed());
  for (const L3Case& l3_case : kL3Cases) {
    for (int i = 0; i < 200; ++i) {
      Bytes l3 = random_bytes(random, l3_case.ip_header + 8 + Bth::kSize);
      l3[0] = l3_case.first_byte;
      const Bytes before = l3;
      const Bytes rest = random_bytes(random, random() % 300);

      Bytes reference(8, 0xff);
      const Bytes l3_masked = masked(l3_case, l3);
      reference.insert(reference.end(), l3_masked.begin(), l3_masked.end());
      reference.insert(reference.end(), rest.begin(), rest.end());
      ASSERT_EQ(icrc_over(l3, rest), test::crc32(reference)) << l3_case.name;
      ASSERT_EQ(l3, before) << "the packet itself must stay as it is";
    }
  }
}

/// Short ones are computed otherwise than long ones, and those whose length is no multiple of four.
TEST(Icrc_A17_3_3, PacketsOfEveryLengthEqualABitwiseCrc) {
  std::mt19937_64 random(test::seed());
  for (const L3Case& l3_case : kL3Cases) {
    const std::size_t l3_length = l3_case.ip_header + 8 + Bth::kSize;
    for (std::size_t length = l3_length; length < kShortIcrcMax + 40; ++length) {
      Bytes packet = random_bytes(random, length);
      packet[0] = l3_case.first_byte;
      Icrc icrc;
      icrc.add_packet(packet, l3_length);

      Bytes reference = masked(l3_case, packet);
      reference.insert(reference.begin(), 8, 0xff);
      ASSERT_EQ(icrc.value(), test::crc32(reference)) << l3_case.name << ", " << length;
    }
  }
}

/// The headers of a flow are computed once, without lengths; what these and the masked byte of the
/// BTH change is added by the length of the packet.
TEST(Icrc_A17_3_3, BehindHeadersThatAreKnownItIsTheSame) {
  if (!kHasShortIcrc) {
    GTEST_SKIP() << "no multiplication without carry";
  }
  std::mt19937_64 random(test::seed());
  for (const L3Case& l3_case : {kL3Cases[0], kL3Cases[3]}) {
    const bool ipv6 = l3_case.first_byte >> 4 == 6;
    for (std::size_t length = Bth::kSize; length <= kShortIcrcMax; length += 4) {
      Bytes headers = random_bytes(random, l3_case.ip_header + 8);
      headers[0] = l3_case.first_byte;
      const auto put = [&headers](std::size_t offset, std::size_t value) {
        headers[offset] = static_cast<std::uint8_t>(value >> 8);
        headers[offset + 1] = static_cast<std::uint8_t>(value);
      };
      const std::size_t ip_length_at = ipv6 ? 4 : 2;
      put(ip_length_at, 0);
      put(l3_case.ip_header + 4, 0);
      const std::uint32_t begin = icrc_begin(headers);
      Bytes transport = random_bytes(random, length);
      transport[4] = 0;

      const std::size_t udp_length = 8 + length + Icrc::kSize;
      put(ip_length_at, ipv6 ? udp_length : 20 + udp_length);
      put(l3_case.ip_header + 4, udp_length);
      Bytes packet = headers;
      packet.insert(packet.end(), transport.begin(), transport.end());
      Bytes reference = masked(l3_case, packet);
      reference.insert(reference.begin(), 8, 0xff);
      transport.resize(length + 16);  // blocks are read whole
      ASSERT_EQ(short_icrc_behind(ipv6, length)(begin, transport.data(), length),
                test::crc32(reference))
          << l3_case.name << ", " << length;
    }
  }
}

TEST(Icrc, APacketBehindOtherBytesIsAddedToThem) {
  const Bytes packet = masked(kL3Cases[0], Bytes(44, 0x45));
  Icrc icrc;
  icrc.add(Bytes(4, 1));
  icrc.add_packet(packet, 40);
  Bytes reference(8, 0xff);
  reference.insert(reference.end(), 4, 1);
  reference.insert(reference.end(), packet.begin(), packet.end());
  EXPECT_EQ(icrc.value(), test::crc32(reference));
}

TEST(Icrc_A17_3_3, EveryBitCountsUnlessMasked) {
  std::mt19937_64 random(test::seed());
  for (const L3Case& l3_case : kL3Cases) {
    Bytes l3 = random_bytes(random, l3_case.ip_header + 8 + Bth::kSize);
    l3[0] = l3_case.first_byte;
    const std::uint32_t icrc = icrc_over(l3);
    for (std::size_t bit = 0; bit < l3.size() * 8; ++bit) {
      Bytes flipped = l3;
      flipped[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
      const bool is_masked = masked(l3_case, flipped) == masked(l3_case, l3);
      EXPECT_EQ(icrc_over(flipped) == icrc, is_masked)
          << l3_case.name << " byte " << bit / 8 << " bit " << bit % 8;
    }
  }
}

TEST(Icrc, IsIndependentOfTheSegments) {
  std::mt19937_64 random(test::seed());
  for (int i = 0; i < 500; ++i) {
    const Bytes bytes = random_bytes(random, random() % 5000);
    Icrc whole;
    whole.add(bytes);
    Icrc pieces;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t length = std::min<std::size_t>(random() % 700, bytes.size() - at);
      pieces.add(std::span(bytes).subspan(at, length));
      at += length;
    }
    ASSERT_EQ(pieces.value(), whole.value());
  }
}

TEST(Icrc, BytesThatAreNoPacketAreAddedUnmasked) {
  std::mt19937_64 random(test::seed());
  const auto expect_unmasked = [](const Bytes& l3) {
    Icrc plain;
    plain.add(l3);
    EXPECT_EQ(icrc_over(l3), plain.value()) << l3.size() << " bytes";
  };
  for (std::size_t size = 0; size < 300; ++size) {
    Bytes l3 = random_bytes(random, size);
    if (!l3.empty()) l3[0] = 0x55;  // IP version 5
    expect_unmasked(l3);
    if (size != 40) {
      if (!l3.empty()) l3[0] = 0x45;
      expect_unmasked(l3);
    }
    if (size < 60 || size > Icrc::kL3Max) {
      if (!l3.empty()) l3[0] = 0x60;
      expect_unmasked(l3);
    }
  }
}

}  // namespace
}  // namespace rockhopper::wire::icrc_test
