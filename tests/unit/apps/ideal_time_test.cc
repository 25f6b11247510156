// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_sim/ideal_time.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace rockhopper::apps::sim {
namespace {

/// Two hosts on a switch: 8 Gbit/s, a byte each nanosecond; 1 us a link.
std::uint64_t ideal_ns(const std::string& flow, int version = 4) {
  const auto scenario = parse_scenario(fmt::format(
      R"({{"duration": "1s", "ip_version": {}, "hosts": [{{"name": "h", "count": 2}}],
           "switches": [{{"name": "s"}}],
           "links": [{{"from": "h", "to": "s", "rate": "8Gbit", "delay": "1us"}}],
           "flows": [{{"from": "h0", "to": "h1", "path_mtu": 1024, {}}}]}})",
      version, flow));
  if (!scenario) {
    ADD_FAILURE() << scenario.error().message;
    return 0;
  }
  return IdealTimes(*scenario).of(scenario->flows[0]).value_or(0);
}

// Ethernet's 14 bytes, 20 of IPv4, 8 of UDP, 12 of the BTH, 4 of the ICRC, and 24 on the wire.
constexpr std::uint64_t kPacket = 14 + 20 + 8 + 12 + 4 + 24;
constexpr std::uint64_t kAcknowledge = kPacket + 4;

TEST(IdealTimes, AreThoseOfStoreAndForward) {
  EXPECT_EQ(ideal_ns(R"("operation": "send", "size": 1000)"),
            2 * (kPacket + 1000 + 1000) + 2 * (kAcknowledge + 1000));
  EXPECT_EQ(ideal_ns(R"("operation": "write", "size": 999)"),
            2 * (kPacket + 16 + 1000 + 1000) + 2 * (kAcknowledge + 1000))
      << "a RETH, and padding";
  // The second packet is forwarded while the third arrives.
  EXPECT_EQ(ideal_ns(R"("operation": "write", "size": 3072)"),
            4 * (kPacket + 1024) + 16 + 16 + 2000 + 2 * (kAcknowledge + 1000))
      << "the longer first packet is in the way on both links";
  EXPECT_EQ(ideal_ns(R"("operation": "read", "size": 1024)"),
            2 * (kPacket + 16 + 1000) + 2 * (kPacket + 4 + 1024 + 1000));
  EXPECT_EQ(ideal_ns(R"("operation": "faa")"),
            2 * (kPacket + 28 + 1000) + 2 * (kPacket + 12 + 1000));
  EXPECT_EQ(ideal_ns(R"("operation": "send", "size": 1000)", 6),
            ideal_ns(R"("operation": "send", "size": 1000)") + 4 * 20);
}

TEST(IdealTimes, AreOfReliableFlowsOnly) {
  EXPECT_EQ(ideal_ns(R"("operation": "send", "transport": "uc")"), 0u);
}

}  // namespace
}  // namespace rockhopper::apps::sim
