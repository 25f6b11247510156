// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_pingpong/exchange.h"

#include <string>

#include <gtest/gtest.h>

namespace rockhopper::apps::pingpong {
namespace {

const std::string kIpv4Message{"0000:000123:abcdef:00000000000000000000ffff0a2a0001",
                               kMessageBytes};

TEST(Exchange, EncodesAsTheStockTool) {
  const Destination destination{.qpn = wire::Qpn{0x123},
                                .psn = wire::Psn{0xabcdef},
                                .gid = stack::IpAddress::from_ipv4(0x0a2a0001)};
  const auto message = encode(destination);
  EXPECT_EQ(std::string(message.data(), message.size()), kIpv4Message);
}

TEST(Exchange, DecodesWhatItEncodes) {
  Destination destination{7, wire::Qpn{0xffffff}, wire::Psn{0}, {}};
  for (std::size_t i = 0; i < 16; ++i) {
    destination.gid.bytes[i] = static_cast<std::uint8_t>(17 * i);
  }
  const auto message = encode(destination);
  const auto decoded = decode({message.data(), message.size()});
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->lid, destination.lid);
  EXPECT_EQ(decoded->qpn, destination.qpn);
  EXPECT_EQ(decoded->psn, destination.psn);
  EXPECT_EQ(decoded->gid, destination.gid);
}

TEST(Exchange, RefusesWhatIsNotTheForm) {
  EXPECT_TRUE(decode(kIpv4Message));
  EXPECT_FALSE(decode(kIpv4Message.substr(1)));
  EXPECT_FALSE(decode(kIpv4Message + "x"));
  // One wrong character at each place, the NUL included.
  for (std::size_t i = 0; i < kMessageBytes; ++i) {
    std::string damaged = kIpv4Message;
    damaged[i] = 'g';
    EXPECT_FALSE(decode(damaged)) << i;
  }
}

const std::string kTargetMessage{
    "DCT1:d00123:abcdef:00000000000000000000ffff0a2a0001:0123456789abcdef", kTargetMessageBytes};

TEST(Exchange, TargetHasAnAccessKey) {
  const Destination target{.qpn = wire::Qpn{0xd00123},
                           .psn = wire::Psn{0xabcdef},
                           .gid = stack::IpAddress::from_ipv4(0x0a2a0001),
                           .access_key = 0x0123456789abcdef};
  const auto message = encode_target(target);
  EXPECT_EQ(std::string(message.data(), message.size()), kTargetMessage);
  const auto decoded = decode_target(kTargetMessage);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->lid, 0);
  EXPECT_EQ(decoded->qpn, target.qpn);
  EXPECT_EQ(decoded->psn, target.psn);
  EXPECT_EQ(decoded->gid, target.gid);
  EXPECT_EQ(decoded->access_key, target.access_key);
}

TEST(Exchange, RefusesWhatIsNotTheFormOfATarget) {
  EXPECT_FALSE(decode_target(kTargetMessage.substr(1)));
  EXPECT_FALSE(decode_target(kTargetMessage + "x"));
  EXPECT_FALSE(decode_target(kTargetMessage.substr(0, kMessageBytes)));
  for (std::size_t i = 0; i < kTargetMessageBytes; ++i) {
    std::string damaged = kTargetMessage;
    damaged[i] = 'g';
    EXPECT_FALSE(decode_target(damaged)) << i;
  }
}

/// A stock tool's message is no target's, and the other way round.
TEST(Exchange, TargetsAndQueuePairsAreToldApart) {
  EXPECT_FALSE(decode(kTargetMessage));
  EXPECT_FALSE(decode(kTargetMessage.substr(0, kMessageBytes)));
  EXPECT_FALSE(decode(kTargetMessage.substr(0, kMessageBytes - 1) + '\0'));
  std::string stock = kTargetMessage;
  stock.replace(0, 4, "0000");
  EXPECT_FALSE(decode_target(stock));
}

TEST(Exchange, DescribesAsTheStockTool) {
  EXPECT_EQ(describe(*decode(kIpv4Message)),
            "LID 0x0000, QPN 0x000123, PSN 0xabcdef, GID ::ffff:10.42.0.1");
}

}  // namespace
}  // namespace rockhopper::apps::pingpong
