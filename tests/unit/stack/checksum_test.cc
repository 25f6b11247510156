// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/checksum.h"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "stack/mbuf_pool.h"
#include "stack/random.h"
#include "tests/support/exact_packet.h"
#include "tests/support/packets.h"
#include "tests/support/seed.h"
#include "tests/unit/stack/frames.h"

namespace rockhopper::stack {
namespace {

/// The sum as frames::checksum() has it: inverted, in network order.
std::uint16_t reference(const test::Bytes& bytes) {
  const test::Bytes sum = test::frames::checksum(bytes);
  std::uint16_t value = 0;
  std::memcpy(&value, sum.data(), sizeof value);
  return static_cast<std::uint16_t>(~value);
}

TEST(Checksum, Rfc1071SumsAnyPartOfAnyChain) {
  auto pool = MbufPool::create({.size = 1023, .cache = 0});
  ASSERT_TRUE(pool.has_value());
  Random random(test::seed());
  for (int round = 0; round < 2000; ++round) {
    // Large bytes, so that the sums carry.
    test::Bytes bytes = test::random_bytes(random, 1 + random.below(3000));
    for (auto& byte : bytes) {
      byte |= 0xc0;
    }
    std::vector<std::size_t> lengths;
    for (std::size_t left = bytes.size(); left > 0; left -= lengths.back()) {
      lengths.push_back(std::min<std::size_t>(left, random.below(1500)));
    }
    rte_mbuf* packet = test::make_exact_packet(pool->get(), bytes, lengths);
    const auto offset = static_cast<std::uint32_t>(random.below(bytes.size()));
    const auto length = static_cast<std::uint32_t>(random.below(bytes.size() - offset + 1));
    const test::Bytes part(bytes.begin() + offset, bytes.begin() + offset + length);
    ASSERT_EQ(raw_checksum(packet, offset, length), reference(part))
        << offset << "+" << length << " of " << ::testing::PrintToString(lengths);
    rte_pktmbuf_free(packet);
  }
  EXPECT_EQ(pool->in_use(), 0u);
}

TEST(Checksum, PseudoHeaders) {
  const auto ipv4 = [](const char* text) { return IpAddress::parse(text).value(); };
  // RFC 768: addresses, zero, protocol, length.
  EXPECT_EQ(pseudo_header_checksum(ipv4("192.0.2.1"), ipv4("198.51.100.2"), 17, 0x1234),
            reference({192, 0, 2, 1, 198, 51, 100, 2, 0, 17, 0x12, 0x34}));
  // RFC 8200, section 8.1: addresses, 32-bit length, zeros, next header.
  test::Bytes expected = test::frames::ip("2001:db8::1");
  const test::Bytes destination = test::frames::ip("fe80::2");
  expected.insert(expected.end(), destination.begin(), destination.end());
  expected.insert(expected.end(), {0, 0, 0x12, 0x34, 0, 0, 0, 58});
  EXPECT_EQ(pseudo_header_checksum(ipv4("2001:db8::1"), ipv4("fe80::2"), 58, 0x1234),
            reference(expected));
}

}  // namespace
}  // namespace rockhopper::stack
