// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Where the BTH of a frame is, and what it says.
#include "stack/roce_locator.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "stack/mbuf_pool.h"
#include "tests/support/packets.h"
#include "tests/unit/stack/frames.h"

namespace rockhopper::test::roce_locator_test {
namespace {

using frames::Bytes;
using stack::BthSummary;

constexpr std::uint16_t kIpv4 = 0x0800;
constexpr std::uint16_t kIpv6 = 0x86dd;
constexpr std::uint8_t kUdp = 17;
/// RC SEND only, P_Key 0xffff, to queue pair 0xabcdef, acknowledgement asked for, PSN 0x123456.
const Bytes kBth{0x04, 0x40, 0xff, 0xff, 0x00, 0xab, 0xcd, 0xef, 0x80, 0x12, 0x34, 0x56};
constexpr BthSummary kSummary{.opcode = 0x04, .destination_qpn = 0xabcdef, .psn = 0x123456};

Bytes ipv4(const Bytes& datagram, const frames::IpOptions& options = {}) {
  return frames::ip_packet("10.0.0.1", "10.0.0.2", kUdp, datagram, options);
}
Bytes ipv6(const Bytes& datagram) {
  return frames::ip_packet("fd00::1", "fd00::2", kUdp, datagram);
}
Bytes ethernet(std::uint16_t type, const Bytes& packet) {
  return frames::ethernet(frames::kPeerMac, frames::kOurMac, type, packet);
}
Bytes tagged(std::uint16_t type, const Bytes& packet) {
  return frames::ethernet_tagged(frames::kPeerMac, frames::kOurMac, 0x0005, type, packet);
}
/// RoCEv2's datagram, and no other.
Bytes roce() { return frames::udp(0xc000, 4791, kBth); }

class RoceLocator : public ::testing::Test {
 protected:
  std::optional<std::uint32_t> find(const Bytes& frame, std::size_t segment = 0) {
    rte_mbuf* packet = make_packet(pool_->get(), frame, segment);
    const auto found = stack::find_bth(packet);
    rte_pktmbuf_free(packet);
    return found;
  }
  std::optional<BthSummary> read(const Bytes& frame, std::size_t segment = 0) {
    rte_mbuf* packet = make_packet(pool_->get(), frame, segment);
    const auto found = stack::read_bth(packet);
    rte_pktmbuf_free(packet);
    return found;
  }

  Expected<stack::MbufPool> pool_ = stack::MbufPool::create({.size = 127, .cache = 0});
};

TEST_F(RoceLocator, FindsItBehindEachKindOfHeaders) {
  EXPECT_EQ(find(ethernet(kIpv4, ipv4(roce()))), 14u + 20 + 8);
  EXPECT_EQ(find(ethernet(kIpv6, ipv6(roce()))), 14u + 40 + 8);
  EXPECT_EQ(find(tagged(kIpv4, ipv4(roce()))), 18u + 20 + 8);
  EXPECT_EQ(find(tagged(kIpv6, ipv6(roce()))), 18u + 40 + 8);
}

TEST_F(RoceLocator, PassesOverIpv4Options) {
  Bytes packet = ipv4(roce());
  packet[0] = 0x46;
  packet.insert(packet.begin() + 20, 4, 0);
  EXPECT_EQ(find(ethernet(kIpv4, packet)), 14u + 24 + 8);
}

TEST_F(RoceLocator, ReadsOpcodeQpnAndPsnFromAnySegments) {
  for (const Bytes& frame : {ethernet(kIpv4, ipv4(roce())), tagged(kIpv6, ipv6(roce()))}) {
    for (std::size_t segment = 0; segment <= frame.size(); ++segment) {
      EXPECT_EQ(read(frame, segment), kSummary) << segment;
    }
  }
}

TEST_F(RoceLocator, OtherPacketsAreNone) {
  EXPECT_EQ(find(ethernet(kIpv4, ipv4(frames::udp(4791, 4790, kBth)))), std::nullopt);
  EXPECT_EQ(find(ethernet(kIpv4, frames::ip_packet("10.0.0.1", "10.0.0.2", 6, roce()))),
            std::nullopt);
  EXPECT_EQ(find(ethernet(kIpv6, frames::ip_packet("fd00::1", "fd00::2", 6, roce()))),
            std::nullopt);
  EXPECT_EQ(find(ethernet(0x0806, ipv4(roce()))), std::nullopt);
  Bytes short_header = ipv4(roce());
  short_header[0] = 0x44;
  EXPECT_EQ(find(ethernet(kIpv4, short_header)), std::nullopt);
}

TEST_F(RoceLocator, OnlyTheFirstFragmentHasOne) {
  constexpr std::uint16_t kMore = 0x2000;
  EXPECT_EQ(find(ethernet(kIpv4, ipv4(roce(), {.fragment = kMore}))), 14u + 20 + 8);
  EXPECT_EQ(find(ethernet(kIpv4, ipv4(roce(), {.fragment = kMore | 1}))), std::nullopt);
  EXPECT_EQ(find(ethernet(kIpv4, ipv4(roce(), {.fragment = 1}))), std::nullopt);
}

TEST_F(RoceLocator, ReadsNothingBeyondTheEnd) {
  for (const Bytes& frame : {ethernet(kIpv4, ipv4(roce())), tagged(kIpv6, ipv6(roce()))}) {
    const std::size_t bth = frame.size() - kBth.size();
    for (std::size_t length = 1; length < frame.size(); ++length) {
      const Bytes cut(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(length));
      EXPECT_EQ(find(cut).has_value(), length >= bth) << length;
      EXPECT_EQ(read(cut), std::nullopt) << length;
    }
  }
}

}  // namespace
}  // namespace rockhopper::test::roce_locator_test
