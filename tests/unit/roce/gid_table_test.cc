// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The GID table, which is the host's addresses: changes, queue pairs without their address, what
// other stations and routers say of addresses and paths.
#include <algorithm>

#include <netinet/in.h>
#include <rte_ether.h>

#include "tests/unit/roce/rig.h"
#include "tests/unit/stack/frames.h"

namespace rockhopper::test {
namespace {

using roce::AsyncEventType;
using roce::QpState;
using roce::QpType;
using roce::WcStatus;
using roce::WrOpcode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Opcode;

MATCHER_P(IsEvent, type, "") { return arg.type == type; }
MATCHER_P3(IsEventOf, type, address, mtu, "") {
  return arg.type == type && arg.address == address && arg.mtu == mtu;
}

/// Hands over a frame of the rig's peer with these bytes behind the Ethernet header.
void receive(Rig& rig, std::uint16_t ether_type, const frames::Bytes& bytes) {
  rte_mbuf* packet = rig.build(ack(0));
  const auto* old = rte_pktmbuf_mtod(packet, const rte_ether_hdr*);
  frames::Mac to;
  frames::Mac from;
  std::copy_n(old->dst_addr.addr_bytes, to.size(), to.begin());
  std::copy_n(old->src_addr.addr_bytes, from.size(), from.begin());
  const frames::Bytes frame = frames::ethernet(to, from, ether_type, bytes);
  rte_pktmbuf_reset(packet);
  char* out = rte_pktmbuf_append(packet, static_cast<std::uint16_t>(frame.size()));
  ASSERT_NE(out, nullptr);
  std::copy(frame.begin(), frame.end(), out);
  rig.host().receive(&packet, 1, rig.now_ns());
}

TEST(GidTable, Clause11_6_3_TheGidTableChangesWithTheAddresses) {
  Rig rig;
  const auto added = stack::IpAddress::from_ipv4(0x0a000063);
  (void)rig.async_events();
  ASSERT_TRUE(rig.host().add_address(added, 24));
  EXPECT_THAT(rig.async_events(), ElementsAre(IsEvent(AsyncEventType::gid_change)));
  std::uint16_t index = 0;
  while (rig.engine().query_gid(index).value() != added) {
    ++index;
  }
  ASSERT_TRUE(rig.host().remove_address(added));
  EXPECT_THAT(rig.async_events(), ElementsAre(IsEvent(AsyncEventType::gid_change)));
  EXPECT_TRUE(rig.engine().query_gid(index).value().is_unspecified());
  EXPECT_FALSE(
      rig.engine().query_gid(static_cast<std::uint16_t>(rig.engine().query_port().gid_tbl_len)));
}

TEST(GidTable, WhatComesForAnAddressThatWentIsDropped) {
  Rig rig;
  const stack::IpAddress own = rig.qp().query().ah_attr.source;
  rig.post_recv(1, 64);
  ASSERT_TRUE(rig.host().remove_address(own));
  rig.inject(packet(Opcode::rc_send_only, 0x020000, pattern(8)));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_THAT(rig.recv_completions(), IsEmpty());
  EXPECT_EQ(rig.host().counters().value(stack::HostDrop::ip_not_ours), 1u);
  ASSERT_TRUE(rig.host().add_address(own, 24));
  rig.inject(packet(Opcode::rc_send_only, 0x020000, pattern(8)));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Received(1u, 8u)));
}

TEST(GidTable, WithoutItsAddressAnUnreliableQueuePairLosesWhatItSends) {
  for (const QpType type : {QpType::uc, QpType::ud}) {
    Rig rig({.qp_type = type});
    ASSERT_TRUE(rig.host().remove_address(stack::IpAddress::from_ipv4(0x0a000001)));
    rig.post_send(1, WrOpcode::send, 8);
    EXPECT_THAT(rig.sent(), IsEmpty());
    EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::success)));
    EXPECT_EQ(rig.counters().unreachable_pkts.value(), 1u);
    EXPECT_EQ(rig.qp().state(), QpState::rts);
  }
}

TEST(GidTable, Clause11_2_5_2_AQueuePairNeedsAnAddressInUse) {
  Rig rig({.state = QpState::reset});
  roce::QpAttributes attributes = rig.attributes({});
  attributes.ah_attr.source = stack::IpAddress::from_ipv4(0x0a000063);
  ASSERT_TRUE(
      rig.host().add_address(attributes.ah_attr.source, 24, stack::AddressUse::after_probing));
  EXPECT_FALSE(rig.qp().bring_up(attributes, QpState::rtr)) << "it is tentative";
  EXPECT_EQ(rig.qp().state(), QpState::init);
}

/// As with Soft-RoCE: what is sent is lost, so that requests fail in their time; one whose address
/// comes back before that goes on.
TEST(GidTable, AQueuePairWithoutItsAddressIsCutOff) {
  for (const bool comes_back : {false, true}) {
    Rig rig;
    const stack::IpAddress own = rig.qp().query().ah_attr.source;
    ASSERT_TRUE(rig.host().remove_address(own));
    rig.post_send(1, WrOpcode::send, 8);
    EXPECT_THAT(rig.sent(), IsEmpty());
    if (comes_back) {
      ASSERT_TRUE(rig.host().add_address(own, 24));
    }
    bool sent = false;
    for (int i = 0; i < 100 && !sent; ++i) {
      rig.advance(5'000'000);
      for (const Packet& each : rig.sent()) {
        sent = sent || each.opcode() == Opcode::rc_send_only;
      }
    }
    EXPECT_EQ(sent, comes_back);
    const auto done = rig.send_completions();
    if (!comes_back) {
      EXPECT_THAT(done, ElementsAre(Completed(1u, WcStatus::retry_exc_err)));
      EXPECT_EQ(rig.qp().state(), QpState::err);
    }
  }
}

TEST(GidTable, AnotherStationWithOurAddressIsAnEvent) {
  Rig rig;
  const stack::IpAddress own = rig.qp().query().ah_attr.source;
  constexpr std::uint16_t kReply = 2;
  (void)rig.async_events();
  for (int i = 0; i < 3; ++i) {
    receive(rig, RTE_ETHER_TYPE_ARP,
            frames::arp(kReply, frames::kOtherMac, own.to_string(), {}, "0.0.0.0"));
  }
  EXPECT_THAT(rig.async_events(),
              ElementsAre(IsEventOf(AsyncEventType::duplicate_address, own, 0u)));
}

TEST(GidTable, Rfc1191_ARoutersComplaintIsAnEventAndChangesNothing) {
  Rig rig({.path_mtu = roce::PathMtu::mtu_4096});
  const stack::IpAddress own = rig.qp().query().ah_attr.source;
  constexpr const char* kRouter = "10.0.0.254";
  constexpr const char* kFar = "198.51.100.9";
  constexpr std::uint16_t kMtu = 1500;
  frames::Bytes quote = frames::ip_packet(own.to_string(), kFar, IPPROTO_UDP,
                                          frames::udp(0xc000, 4791, frames::Bytes(4120)));
  quote.resize(28);
  const frames::Bytes mtu{0, 0, kMtu >> 8, kMtu & 0xff};
  (void)rig.async_events();
  for (int i = 0; i < 3; ++i) {
    receive(rig, RTE_ETHER_TYPE_IPV4,
            frames::ip_packet(kRouter, own.to_string(), IPPROTO_ICMP,
                              frames::icmp(3, 4, frames::join({mtu, quote}))));
  }
  EXPECT_THAT(rig.async_events(),
              ElementsAre(IsEventOf(AsyncEventType::path_mtu_exceeded,
                                    stack::IpAddress::parse(kFar).value(), kMtu)));
  EXPECT_EQ(rig.qp().query().path_mtu, roce::PathMtu::mtu_4096);
  EXPECT_EQ(rig.qp().state(), QpState::rts);
}

}  // namespace
}  // namespace rockhopper::test
