// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <algorithm>
#include <array>
#include <numeric>

#include <netinet/in.h>

#include "tests/unit/stack/host_fixture.h"

namespace rockhopper::stack::host_receive_test {
namespace {

using namespace frames;

constexpr std::uint16_t kIpv4 = 0x0800;
constexpr std::uint16_t kIpv6 = 0x86dd;
constexpr const char* kUs4 = "192.0.2.1";
constexpr const char* kPeer4 = "192.0.2.2";
constexpr const char* kUs6 = "2001:db8::1";
constexpr const char* kPeer6 = "2001:db8::2";

Bytes payload(std::size_t size = 20) {
  Bytes bytes(size);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{1});
  return bytes;
}

Bytes udp4(const Bytes& udp_bytes, const IpOptions& options = {}) {
  return ethernet(kOurMac, kPeerMac, kIpv4,
                  ip_packet(kPeer4, kUs4, IPPROTO_UDP, udp_bytes, options));
}

Bytes udp6(const Bytes& udp_bytes, const IpOptions& options = {}) {
  return ethernet(kOurMac, kPeerMac, kIpv6,
                  ip_packet(kPeer6, kUs6, IPPROTO_UDP, udp_bytes, options));
}

Bytes good4() { return udp4(udp(5000, 4791, payload())); }
Bytes good6() { return udp6(udp(5000, 4791, payload())); }

/// `bytes` with the byte at `at` replaced.
Bytes with(Bytes bytes, std::size_t at, std::uint8_t value) {
  bytes.at(at) = value;
  return bytes;
}

/// The first `size` of `bytes`.
Bytes cut(Bytes bytes, std::size_t size) {
  bytes.resize(size);
  return bytes;
}

/// An Ethernet frame with IPv4 whose header bytes were changed: gives it a right checksum again.
Bytes with_ipv4_checksum(Bytes frame) {
  frame[24] = frame[25] = 0;
  const Bytes sum = checksum({frame.begin() + 14, frame.begin() + 34});
  frame[24] = sum[0];
  frame[25] = sum[1];
  return frame;
}

class HostReceive : public HostFixture {};

TEST_F(HostReceive, DeliversUdpOverIpv4) {
  receive(udp4(udp(0xc001, kPort, payload()), {.traffic_class = 0x6b, .hop_limit = 7}));
  const ReceivedDatagram expected{address(kPeer4), address(kUs4), 0xc001, kPort, 14, 0x6b, 7,
                                  payload()};
  EXPECT_EQ(datagrams_, std::vector<ReceivedDatagram>{expected});
  EXPECT_EQ(counter("rx_udp_datagrams"), 1u);
}

TEST_F(HostReceive, DeliversUdpOverIpv6) {
  receive(udp6(udp(0xc001, kPort, payload()),
               {.traffic_class = 0x6b, .hop_limit = 7, .flow_label = 0xfffff}));
  const ReceivedDatagram expected{address(kPeer6), address(kUs6), 0xc001, kPort, 14, 0x6b, 7,
                                  payload()};
  EXPECT_EQ(datagrams_, std::vector<ReceivedDatagram>{expected});
}

TEST_F(HostReceive, EthernetPaddingAndBytesBeyondTheUdpLengthAreNoPayload) {
  receive(join({udp4(udp(1, kPort, payload(2))), Bytes(16)}));
  ASSERT_EQ(datagrams_.size(), 1u);
  EXPECT_EQ(datagrams_[0].payload, payload(2));
  receive(udp4(join({udp(1, kPort, payload(2)), Bytes(3)})));
  ASSERT_EQ(datagrams_.size(), 2u);
  EXPECT_EQ(datagrams_[1].payload, payload(2));
}

TEST_F(HostReceive, AnEmptyDatagramIsDelivered) {
  receive(udp4(udp(1, kPort, {})));
  ASSERT_EQ(datagrams_.size(), 1u);
  EXPECT_TRUE(datagrams_[0].payload.empty());
}

/// What a member of a segment sends to a group comes from the address that all its members have.
TEST_F(HostReceive, SharesItsMacAddress) {
  const Bytes frame = ethernet(kBroadcast, kOurMac, 0x88cc, payload());
  expect_drop(frame, "ethernet_own_source");
  HostConfig config = default_config();
  config.shared_mac = true;
  create(config);
  expect_drop(frame, "ethernet_unknown_type");
}

TEST_F(HostReceive, DropsWhatIsForOtherStations) {
  expect_drop(ethernet(kOtherMac, kPeerMac, kIpv4,
                       ip_packet(kPeer4, kUs4, IPPROTO_UDP, udp(1, kPort, payload()))),
              "ethernet_not_ours");
  expect_drop(with(good4(), 6, 0x03), "ethernet_bad_source");
  expect_drop(ethernet(kBroadcast, kOurMac, 0x0806, arp(1, kOurMac, kUs4, {}, kUs4)),
              "ethernet_own_source");
  expect_drop(ethernet(kOurMac, kPeerMac, 0x88cc, payload()), "ethernet_unknown_type");
  expect_drop(ethernet(kOurMac, kPeerMac, 0x8915, payload()), "roce_v1");
  expect_drop(ethernet(kOurMac, kPeerMac, 60, payload(60)), "ethernet_unknown_type");
  for (std::size_t size = 0; size < 14; ++size) {
    expect_drop(cut(good4(), size), "ethernet_truncated");
  }
}

// Linux 6.18 leaves the source zero in MADs of some RNICs.
TEST_F(HostReceive, UdpToUsMayLackItsSourceMac) {
  constexpr Mac kNone{};
  const auto ipv4 = [](std::uint8_t protocol, const Bytes& body) {
    return ip_packet(kPeer4, kUs4, protocol, body);
  };
  const Bytes datagram = udp(5000, kPort, payload());
  receive(ethernet(kOurMac, kNone, kIpv4, ipv4(IPPROTO_UDP, datagram)));
  receive(ethernet(kOurMac, kNone, kIpv6, ip_packet(kPeer6, kUs6, IPPROTO_UDP, datagram)));
  EXPECT_EQ(datagrams_.size(), 2u);
  EXPECT_TRUE(drops_.empty());
  expect_drop(ethernet(kBroadcast, kNone, kIpv4, ipv4(IPPROTO_UDP, datagram)),
              "ethernet_bad_source");
  // A reply would go to this address, and neighbours would be learned with it.
  expect_drop(ethernet(kOurMac, kNone, kIpv4, ipv4(IPPROTO_ICMP, icmp(8, 0, Bytes(8)))),
              "ethernet_bad_source");
  expect_drop(
      ethernet(kOurMac, kNone, kIpv6,
               ip_packet(kPeer6, kUs6, IPPROTO_ICMPV6, icmpv6(kPeer6, kUs6, 128, 0, Bytes(8)))),
      "ethernet_bad_source");
  expect_drop(ethernet(kOurMac, kNone, 0x0806, arp(1, kPeerMac, kPeer4, {}, kUs4)),
              "ethernet_bad_source");
  EXPECT_TRUE(sent().empty());
}

TEST_F(HostReceive, Rfc1122Section336UnicastPacketsInGroupFramesAreDropped) {
  expect_drop(ethernet(kBroadcast, kPeerMac, kIpv4,
                       ip_packet(kPeer4, kUs4, IPPROTO_UDP, udp(1, kPort, payload()))),
              "ip_not_ours");
}

TEST_F(HostReceive, UntaggedHostTakesPriorityTagsOnly) {
  const Bytes packet = ip_packet(kPeer4, kUs4, IPPROTO_UDP, udp(1, kPort, payload()));
  receive(ethernet_tagged(kOurMac, kPeerMac, 0xe000, kIpv4, packet));
  ASSERT_EQ(datagrams_.size(), 1u);
  EXPECT_EQ(datagrams_[0].l3_offset, 18);
  expect_drop(ethernet_tagged(kOurMac, kPeerMac, 0xe001, kIpv4, packet), "ethernet_wrong_vlan");
  expect_drop(ethernet(kOurMac, kPeerMac, 0x8100, {0xe0}), "ethernet_truncated");
}

TEST_F(HostReceive, TaggedHostTakesItsVlanOnly) {
  HostConfig config = default_config();
  config.vlan_id = 100;
  create(config);
  const Bytes packet = ip_packet(kPeer4, kUs4, IPPROTO_UDP, udp(1, kPort, payload()));
  receive(ethernet_tagged(kOurMac, kPeerMac, 3 << 13 | 100, kIpv4, packet));
  ASSERT_EQ(datagrams_.size(), 1u);
  EXPECT_EQ(datagrams_[0].payload, payload());
  expect_drop(ethernet_tagged(kOurMac, kPeerMac, 101, kIpv4, packet), "ethernet_wrong_vlan");
  expect_drop(ethernet_tagged(kOurMac, kPeerMac, 0, kIpv4, packet), "ethernet_wrong_vlan");
  expect_drop(ethernet(kOurMac, kPeerMac, kIpv4, packet), "ethernet_wrong_vlan");
}

TEST_F(HostReceive, ATagTakenOutByTheNicCounts) {
  HostConfig config = default_config();
  config.vlan_id = 100;
  create(config);
  const Bytes frame = good4();
  for (const std::uint16_t vlan_id : {std::uint16_t{100}, std::uint16_t{101}}) {
    rte_mbuf* packet = rte_pktmbuf_alloc(pool_.get());
    std::copy(frame.begin(), frame.end(),
              rte_pktmbuf_append(packet, static_cast<std::uint16_t>(frame.size())));
    packet->ol_flags |= RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;
    packet->vlan_tci = vlan_id;
    host_->receive(&packet, 1, now_ns_);
  }
  EXPECT_EQ(datagrams_.size(), 1u);
  EXPECT_EQ(counter("ethernet_wrong_vlan"), 1u);
}

TEST_F(HostReceive, ChecksTheIpv4Header) {
  expect_drop(with(good4(), 14, 0x65), "ipv4_bad_version");
  expect_drop(with(good4(), 14, 0x44), "ipv4_bad_header_length");
  expect_drop(with(good4(), 14, 0x46), "ipv4_options");
  expect_drop(with_ipv4_checksum(with(good4(), 17, 19)), "ipv4_bad_total_length");
  expect_drop(with_ipv4_checksum(with(good4(), 17, 49)), "ipv4_bad_total_length");
  expect_drop(with(good4(), 22, 65), "ipv4_bad_checksum");
  expect_drop(udp4(udp(1, kPort, payload()), {.fragment = 0x2000}), "ipv4_fragment");
  expect_drop(udp4(udp(1, kPort, payload()), {.fragment = 0x0001}), "ipv4_fragment");
  expect_drop(with_ipv4_checksum(with(good4(), 23, IPPROTO_TCP)), "ip_unknown_protocol");
  expect_drop(with_ipv4_checksum(with(good4(), 23, IPPROTO_ICMPV6)), "ip_unknown_protocol");
  for (std::size_t size = 14; size < 34; ++size) {
    expect_drop(cut(good4(), size), "ipv4_truncated");
  }
  for (std::size_t size = 34; size < good4().size(); ++size) {
    expect_drop(cut(good4(), size), "ipv4_bad_total_length");
  }
}

TEST_F(HostReceive, AChecksumThatTheDriverVerifiedIsNotComputedAgain) {
  const Bytes bad = with(good4(), 22, 65);
  receive(bad, {}, RTE_MBUF_F_RX_IP_CKSUM_BAD);
  receive(bad, {}, RTE_MBUF_F_RX_IP_CKSUM_UNKNOWN);
  EXPECT_TRUE(datagrams_.empty());
  EXPECT_EQ(counter("ipv4_bad_checksum"), 2u);
  receive(bad, {}, RTE_MBUF_F_RX_IP_CKSUM_GOOD);
  receive(bad, {}, RTE_MBUF_F_RX_IP_CKSUM_NONE);
  EXPECT_EQ(datagrams_.size(), 2u);
  // A NIC that calls a good one bad is not believed.
  receive(good4(), {}, RTE_MBUF_F_RX_IP_CKSUM_BAD);
  EXPECT_EQ(datagrams_.size(), 3u);
}

TEST_F(HostReceive, ChecksTheIpv6Header) {
  expect_drop(with(good6(), 14, 0x40), "ipv6_bad_version");
  expect_drop(with(good6(), 19, 29), "ipv6_bad_payload_length");
  expect_drop(with(good6(), 20, IPPROTO_FRAGMENT), "ipv6_fragment");
  for (const std::uint8_t header : {IPPROTO_HOPOPTS, IPPROTO_ROUTING, IPPROTO_DSTOPTS}) {
    expect_drop(with(good6(), 20, header), "ipv6_extension_header");
  }
  expect_drop(with(good6(), 20, IPPROTO_TCP), "ip_unknown_protocol");
  expect_drop(with(good6(), 20, IPPROTO_ICMP), "ip_unknown_protocol");
  expect_drop(ethernet(kOurMac, kPeerMac, kIpv6,
                       ip_packet("::ffff:192.0.2.2", kUs6, IPPROTO_UDP, udp(1, kPort, payload()))),
              "ipv6_mapped_address");
  expect_drop(
      ethernet(kOurMac, kPeerMac, kIpv6,
               ip_packet(kPeer6, "::ffff:192.0.2.1", IPPROTO_UDP, udp(1, kPort, payload()))),
      "ipv6_mapped_address");
  for (std::size_t size = 14; size < 54; ++size) {
    expect_drop(cut(good6(), size), "ipv6_truncated");
  }
  for (std::size_t size = 54; size < good6().size(); ++size) {
    expect_drop(cut(good6(), size), "ipv6_bad_payload_length");
  }
}

TEST_F(HostReceive, DropsWhatIsForOtherHosts) {
  const Bytes datagram = udp(1, kPort, payload());
  for (const char* destination : {"192.0.2.3", "192.0.2.255", "255.255.255.255"}) {
    expect_drop(
        ethernet(kOurMac, kPeerMac, kIpv4, ip_packet(kPeer4, destination, IPPROTO_UDP, datagram)),
        "ip_not_ours");
  }
  for (const char* destination : {"2001:db8::3", "::1"}) {
    expect_drop(
        ethernet(kOurMac, kPeerMac, kIpv6, ip_packet(kPeer6, destination, IPPROTO_UDP, datagram)),
        "ip_not_ours");
  }
  expect_drop(
      ethernet(kOurMac, kPeerMac, kIpv4, ip_packet(kPeer4, "224.0.0.1", IPPROTO_UDP, datagram)),
      "ip_group_not_joined");
  for (const char* group : {"ff02::1", "ff02::1:ff00:1", "ff0e::1"}) {
    expect_drop(ethernet(kOurMac, kPeerMac, kIpv6, ip_packet(kPeer6, group, IPPROTO_UDP, datagram)),
                "ip_group_not_joined");
  }
}

TEST_F(HostReceive, DropsImpossibleSources) {
  const Bytes datagram = udp(1, kPort, payload());
  for (const char* source : {"0.0.0.0", "224.0.0.1", "255.255.255.255", "127.0.0.1"}) {
    expect_drop(ethernet(kOurMac, kPeerMac, kIpv4, ip_packet(source, kUs4, IPPROTO_UDP, datagram)),
                "ip_bad_source");
  }
  for (const char* source : {"::", "ff02::1", "::1"}) {
    expect_drop(ethernet(kOurMac, kPeerMac, kIpv6, ip_packet(source, kUs6, IPPROTO_UDP, datagram)),
                "ip_bad_source");
  }
  expect_drop(ethernet(kOurMac, kPeerMac, kIpv4, ip_packet(kUs4, kUs4, IPPROTO_UDP, datagram)),
              "ip_own_source");
  expect_drop(ethernet(kOurMac, kPeerMac, kIpv6, ip_packet(kUs6, kUs6, IPPROTO_UDP, datagram)),
              "ip_own_source");
}

TEST_F(HostReceive, WhatWeSendToOurselvesIsTaken) {
  Flow flow = flow_to(kUs4);
  ASSERT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  receive(encapsulated(flow, payload()));
  ASSERT_EQ(datagrams_.size(), 1u);
  EXPECT_EQ(datagrams_[0].source, address(kUs4));
  EXPECT_EQ(datagrams_[0].payload, payload());
}

TEST_F(HostReceive, ChecksTheUdpHeader) {
  expect_drop(udp4(Bytes(7)), "udp_truncated");
  expect_drop(udp6(Bytes(7)), "udp_truncated");
  expect_drop(with(good4(), 39, 7), "udp_bad_length");
  expect_drop(with(good4(), 39, 29), "udp_bad_length");
  expect_drop(udp4(udp(1, 4790, payload())), "udp_no_listener");
  host_->bind_udp(kPort, nullptr);
  expect_drop(good4(), "udp_no_listener");
}

TEST_F(HostReceive, VerifiesAUdpChecksumThatIsThere) {
  for (std::size_t size = 0; size < 70; ++size) {
    datagrams_.clear();
    const Bytes good = udp_checked(kPeer4, kUs4, 1, kPort, payload(size));
    receive(udp4(good));
    receive(udp6(udp_checked(kPeer6, kUs6, 1, kPort, payload(size))));
    EXPECT_EQ(datagrams_.size(), 2u) << size;
    expect_drop(udp4(with(good, 7, static_cast<std::uint8_t>(good[7] ^ 0x40))), "udp_bad_checksum");
    expect_drop(udp6(udp_checked(kPeer6, "2001:db8::7", 1, kPort, payload(size))),
                "udp_bad_checksum");
  }
  const Bytes bad = udp4(with(udp_checked(kPeer4, kUs4, 1, kPort, payload()), 6, 0xee));
  receive(bad, {}, RTE_MBUF_F_RX_L4_CKSUM_BAD);
  EXPECT_TRUE(datagrams_.empty());
  receive(bad, {}, RTE_MBUF_F_RX_L4_CKSUM_GOOD);
  receive(bad, {}, RTE_MBUF_F_RX_L4_CKSUM_NONE);
  EXPECT_EQ(datagrams_.size(), 2u);
}

TEST_F(HostReceive, EachPortHasItsHandler) {
  host_->bind_udp(53, this);
  receive(udp4(udp(1, 53, payload())));
  receive(good4());
  ASSERT_EQ(datagrams_.size(), 2u);
  EXPECT_EQ(datagrams_[0].destination_port, 53);
  EXPECT_EQ(datagrams_[1].destination_port, kPort);
}

TEST_F(HostReceive, ABurstIsTakenInOrder) {
  std::array<rte_mbuf*, 8> burst;
  for (std::uint8_t i = 0; i < burst.size(); ++i) {
    burst[i] = rte_pktmbuf_alloc(pool_.get());
    const Bytes frame = udp4(udp(i, kPort, {i}));
    std::copy(frame.begin(), frame.end(),
              rte_pktmbuf_append(burst[i], static_cast<std::uint16_t>(frame.size())));
  }
  host_->receive(burst.data(), burst.size(), now_ns_);
  ASSERT_EQ(datagrams_.size(), burst.size());
  for (std::uint8_t i = 0; i < burst.size(); ++i) {
    EXPECT_EQ(datagrams_[i].payload, Bytes{i});
  }
}

}  // namespace
}  // namespace rockhopper::stack::host_receive_test
