// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <optional>

#include <netinet/in.h>

#include "tests/support/packets.h"
#include "tests/support/seed.h"
#include "tests/unit/stack/host_fixture.h"

namespace rockhopper::stack::host_flow_test {
namespace {

using namespace frames;

constexpr std::uint16_t kIpv4 = 0x0800;
constexpr std::uint16_t kIpv6 = 0x86dd;
constexpr const char* kUs4 = "192.0.2.1";
constexpr const char* kPeer4 = "192.0.2.2";
constexpr const char* kUs6 = "2001:db8::1";
constexpr const char* kPeer6 = "2001:db8::2";

class HostFlow : public HostFixture {
 protected:
  void add_peers() {
    ASSERT_TRUE(host_->add_static_neighbour(address(kPeer4), mac(kPeerMac)));
    ASSERT_TRUE(host_->add_static_neighbour(address(kPeer6), mac(kPeerMac)));
  }
  [[nodiscard]] Flow ready_flow(const std::string& destination) {
    Flow flow = flow_to(destination);
    flow.config.traffic_class = 0x6a;
    flow.config.hop_limit = 33;
    flow.config.flow_label = 0xabcde;
    flow.config.priority = 5;
    EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
    return flow;
  }
};

TEST_F(HostFlow, Ipv4HeadersAreComplete) {
  add_peers();
  const Flow flow = ready_flow(kPeer4);
  Random random(test::seed());
  for (const std::size_t size : {0u, 1u, 44u, 299u, 300u, 301u, 1500u, 8000u}) {
    const Bytes payload = test::random_bytes(random, size);
    EXPECT_EQ(encapsulated(flow, payload),
              ethernet(kPeerMac, kOurMac, kIpv4,
                       ip_packet(kUs4, kPeer4, IPPROTO_UDP, udp(0xc123, kPort, payload),
                                 {.traffic_class = 0x6a, .hop_limit = 33})));
  }
}

TEST_F(HostFlow, TheIcrcIsOmittedOnTheWayToOneself) {
  add_peers();
  EXPECT_FALSE(ready_flow(kUs4).omits_icrc);
  HostConfig config = default_config();
  config.omits_icrc = true;
  create(config);
  add_peers();
  EXPECT_TRUE(ready_flow(kUs4).omits_icrc);
  EXPECT_TRUE(ready_flow(kUs6).omits_icrc);
  EXPECT_FALSE(ready_flow(kPeer4).omits_icrc);
  EXPECT_FALSE(ready_flow(kPeer6).omits_icrc);
  EXPECT_FALSE(ready_flow("239.1.2.3").omits_icrc) << "a group";
}

TEST_F(HostFlow, AtSocketsOfTheKernelNobodyIsAskedForAnAddress) {
  HostConfig config = default_config();
  config.silent = true;
  config.socket = KernelSocket{.mac = mac(kPeerMac), .source_port = 0xd001};
  create(config);
  // The kernel has the ways to all of these, and the node may be at its loopback device.
  EXPECT_TRUE(host_->add_address(address("127.1.2.3"), 0));
  EXPECT_TRUE(host_->owns(address("127.1.2.3")));
  for (const char* destination : {kPeer4, "198.51.100.9", "127.9.9.9"}) {
    Flow flow = flow_to(kPeer4);
    flow.config.destination = address(destination);
    EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready) << destination;
    EXPECT_EQ(encapsulated(flow, Bytes(20, 1)),
              ethernet(kPeerMac, kOurMac, kIpv4,
                       ip_packet(kUs4, destination, IPPROTO_UDP, udp(0xd001, kPort, Bytes(20, 1)),
                                 {.traffic_class = flow.config.traffic_class,
                                  .hop_limit = flow.config.hop_limit})));
  }
  EXPECT_TRUE(sent().empty());
  receive(ethernet(kOurMac, kPeerMac, kIpv4,
                   ip_packet("127.9.9.9", "127.1.2.3", IPPROTO_UDP, udp(0xc000, kPort, Bytes(5)))));
  EXPECT_EQ(counter("ip_bad_source"), 0u);
  EXPECT_EQ(counter("rx_udp_datagrams"), 1u);
}

TEST_F(HostFlow, AtSocketsOfTheKernelNoAddressIsMadeUp) {
  HostConfig config = default_config();
  config.silent = true;
  config.socket = KernelSocket{.mac = mac(kPeerMac), .source_port = 0xd001};
  auto host = Host::create(config);
  ASSERT_TRUE(host);
  ASSERT_TRUE((*host)->add_address(address(kUs6), 64));
  EXPECT_TRUE((*host)->address_at(0));
  EXPECT_FALSE((*host)->address_at(1)) << "no link-local one of a MAC that nobody has";
}

TEST_F(HostFlow, ElsewhereLoopbackAddressesAreRefused) {
  EXPECT_FALSE(host_->add_address(address("127.1.2.3"), 8));
}

TEST_F(HostFlow, Ipv6HeadersAreComplete) {
  add_peers();
  const Flow flow = ready_flow(kPeer6);
  const Bytes payload(500, 0x77);
  EXPECT_EQ(encapsulated(flow, payload),
            ethernet(kPeerMac, kOurMac, kIpv6,
                     ip_packet(kUs6, kPeer6, IPPROTO_UDP, udp(0xc123, kPort, payload),
                               {.traffic_class = 0x6a, .hop_limit = 33, .flow_label = 0xabcde})));
}

TEST_F(HostFlow, LengthsCountTheTrailer) {
  add_peers();
  for (const char* peer : {kPeer4, kPeer6}) {
    const Flow flow = ready_flow(peer);
    const Bytes payload(40, 1);
    const Bytes trailer(4, 2);
    EXPECT_EQ(join({encapsulated(flow, payload, 4), trailer}),
              encapsulated(flow, join({payload, trailer})));
  }
}

TEST_F(HostFlow, EveryIpv4LengthHasARightChecksum) {
  add_peers();
  const Flow flow = ready_flow(kPeer4);
  // Any length that UDP can have: the checksum must be right across all carries.
  for (std::uint32_t trailer = 0; trailer <= 65535 - 28; ++trailer) {
    const Bytes frame = encapsulated(flow, {}, static_cast<std::uint16_t>(trailer));
    const Bytes header(frame.begin() + 14, frame.begin() + 34);
    ASSERT_EQ(checksum(header), (Bytes{0, 0})) << trailer;
    ASSERT_EQ(header[2] << 8 | header[3], static_cast<int>(trailer) + 28);
  }
}

/// The tag's priority and VLAN id of a frame; -1 without a tag.
int tag_of(const Bytes& frame) {
  return frame[12] == 0x81 && frame[13] == 0x00 ? frame[14] << 8 | frame[15] : -1;
}

TEST_F(HostFlow, ThePortTrustsServiceLevelOrDscp) {
  HostConfig config = default_config();
  for (const std::uint16_t vlan : std::initializer_list<std::uint16_t>{100, 0}) {
    config.vlan_id = vlan == 0 ? std::nullopt : std::optional(vlan);
    config.priority_tags = vlan == 0;
    config.priorities = {};
    create(config);
    add_peers();
    EXPECT_EQ(tag_of(encapsulated(ready_flow(kPeer4), {})), 5 << 13 | vlan);
    config.priorities.trust = Trust::dscp;
    create(config);
    add_peers();
    EXPECT_EQ(tag_of(encapsulated(ready_flow(kPeer4), {})), (0x6a >> 5) << 13 | vlan);
    config.priorities.of_dscp[0x6a >> 2] = 7;
    create(config);
    add_peers();
    EXPECT_EQ(tag_of(encapsulated(ready_flow(kPeer6), {})), 7 << 13 | vlan);
  }
  config.priority_tags = false;
  create(config);
  add_peers();
  EXPECT_EQ(tag_of(encapsulated(ready_flow(kPeer4), {})), -1);
}

TEST_F(HostFlow, AFlowMayDoWithoutAPriorityTagButNotWithoutAVlan) {
  for (const bool on_vlan : {false, true}) {
    HostConfig config = default_config();
    config.priority_tags = true;
    if (on_vlan) config.vlan_id = 100;
    create(config);
    add_peers();
    Flow flow = flow_to(kPeer4);
    flow.config.priority_tag = false;
    ASSERT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
    EXPECT_EQ(tag_of(encapsulated(flow, {})), on_vlan ? 100 : -1);
  }
}

TEST_F(HostFlow, AVlanTagCarriesThePriority) {
  HostConfig config = default_config();
  config.vlan_id = 100;
  create(config);
  add_peers();
  const Bytes payload(12, 3);
  EXPECT_EQ(encapsulated(ready_flow(kPeer4), payload),
            ethernet_tagged(kPeerMac, kOurMac, 5 << 13 | 100, kIpv4,
                            ip_packet(kUs4, kPeer4, IPPROTO_UDP, udp(0xc123, kPort, payload),
                                      {.traffic_class = 0x6a, .hop_limit = 33})));
  EXPECT_EQ(encapsulated(ready_flow(kPeer6), payload).size(), 14u + 4 + 40 + 8 + 12);
}

TEST_F(HostFlow, AnOffloadedChecksumIsLeftToTheNic) {
  HostConfig config = default_config();
  config.ipv4_checksum_offload = true;
  config.vlan_id = 100;
  create(config);
  add_peers();
  for (const char* peer : {kPeer4, kPeer6}) {
    const Flow flow = ready_flow(peer);
    rte_mbuf* packet = rte_pktmbuf_alloc(pool_.get());
    host_->encapsulate(flow, packet, 14);
    if (peer == kPeer4) {
      EXPECT_EQ(packet->ol_flags, RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM);
      EXPECT_EQ(packet->l2_len, 18);
      EXPECT_EQ(packet->l3_len, 20);
      const Bytes frame = test::bytes_of(packet);
      EXPECT_EQ(Bytes(frame.begin() + 28, frame.begin() + 30), (Bytes{0, 0}));
    } else {
      EXPECT_EQ(packet->ol_flags, 0u);
    }
    rte_pktmbuf_free(packet);
  }
}

TEST_F(HostFlow, OffLinkDestinationsGoThroughTheGateway) {
  Flow flow = flow_to("203.0.113.5");
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::unreachable);
  EXPECT_FALSE(host_->set_gateway(address(kUs4)));
  EXPECT_FALSE(host_->set_gateway(address("224.0.0.1")));
  ASSERT_TRUE(host_->set_gateway(address("192.0.2.254")));
  ASSERT_TRUE(host_->set_gateway(address("fe80::fe")));
  ASSERT_TRUE(host_->add_static_neighbour(address("192.0.2.254"), mac(kPeerMac)));
  ASSERT_TRUE(host_->add_static_neighbour(address("fe80::fe"), mac(kOtherMac)));
  ASSERT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  EXPECT_EQ(encapsulated(flow, {1}),
            ethernet(kPeerMac, kOurMac, kIpv4,
                     ip_packet(kUs4, "203.0.113.5", IPPROTO_UDP, udp(0xc123, kPort, {1}))));
  Flow flow6 = flow_to("2001:db8:ffff::5");
  ASSERT_EQ(host_->resolve(flow6, now_ns_), Resolution::ready);
  EXPECT_EQ(encapsulated(flow6, {1}),
            ethernet(kOtherMac, kOurMac, kIpv6,
                     ip_packet(kUs6, "2001:db8:ffff::5", IPPROTO_UDP, udp(0xc123, kPort, {1}))));
}

TEST_F(HostFlow, AStaticNeighbourNeedsNoPrefix) {
  ASSERT_TRUE(host_->add_static_neighbour(address("203.0.113.5"), mac(kPeerMac)));
  Flow flow = flow_to("203.0.113.5");
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
}

TEST_F(HostFlow, GroupsNeedNoNeighbour) {
  Flow flow = flow_to("239.129.2.3");
  ASSERT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  EXPECT_EQ(encapsulated(flow, {1}),
            ethernet({0x01, 0x00, 0x5e, 0x01, 0x02, 0x03}, kOurMac, kIpv4,
                     ip_packet(kUs4, "239.129.2.3", IPPROTO_UDP, udp(0xc123, kPort, {1}))));
  Flow flow6 = flow_to("ff0e::1:2:3");
  ASSERT_EQ(host_->resolve(flow6, now_ns_), Resolution::ready);
  EXPECT_EQ(encapsulated(flow6, {1}),
            ethernet({0x33, 0x33, 0x00, 0x02, 0x00, 0x03}, kOurMac, kIpv6,
                     ip_packet(kUs6, "ff0e::1:2:3", IPPROTO_UDP, udp(0xc123, kPort, {1}))));
}

TEST_F(HostFlow, ImpossibleFlowsAreUnreachable) {
  add_peers();
  Flow flow = flow_to(kPeer4);
  flow.config.source = address("192.0.2.99");
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::unreachable) << "not our address";
  flow = flow_to(kPeer4);
  flow.config.source = address(kUs6);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::unreachable) << "mixed families";
  flow = flow_to("0.0.0.0");
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::unreachable);
  flow = flow_to("255.255.255.255");
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::unreachable);
}

TEST_F(HostFlow, ARemovedAddressEndsItsFlows) {
  add_peers();
  Flow flow = ready_flow(kPeer4);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  ASSERT_TRUE(host_->remove_address(address(kUs4)));
  EXPECT_FALSE(host_->remove_address(address(kUs4)));
  EXPECT_FALSE(host_->owns(address(kUs4)));
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::unreachable);
  EXPECT_EQ(flow.header_length, 0);
  ASSERT_TRUE(host_->add_address(address(kUs4), 24));
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  (void)sent();
}

TEST_F(HostFlow, TheLongestPrefixChoosesTheAddressToAskWith) {
  ASSERT_TRUE(host_->add_address(address("10.0.0.1"), 8));
  ASSERT_TRUE(host_->add_address(address("10.1.2.1"), 24));
  ASSERT_TRUE(host_->add_address(address("10.1.0.1"), 16));
  (void)run_until(now_ns_ + 10 * kSecondNs);
  for (const auto& [peer, source] : {std::pair{"10.1.2.9", "10.1.2.1"},
                                     {"10.1.3.9", "10.1.0.1"},
                                     {"10.2.0.9", "10.0.0.1"},
                                     {kPeer4, kUs4}}) {
    Flow flow = flow_to(peer);
    EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
    EXPECT_EQ(sent(), std::vector<Bytes>{ethernet(kBroadcast, kOurMac, 0x0806,
                                                  arp(1, kOurMac, source, {}, peer))});
  }
}

TEST_F(HostFlow, RefusesBadAddresses) {
  for (const char* bad : {"0.0.0.0", "::", "224.0.0.1", "ff02::5", "255.255.255.255"}) {
    EXPECT_FALSE(host_->add_address(address(bad), 8)) << bad;
  }
  EXPECT_FALSE(host_->add_address(address("10.0.0.1"), 33));
  EXPECT_FALSE(host_->add_address(address("2001:db8::9"), 129));
  EXPECT_FALSE(host_->add_address(address(kUs4), 24)) << "twice";
  for (std::uint32_t i = 0; i < 100; ++i) {
    (void)host_->add_address(IpAddress::from_ipv4(0x0a000001 + i), 8);
  }
  EXPECT_FALSE(host_->add_address(address("10.9.9.9"), 8)) << "too many";
  (void)run_until(now_ns_ + 10 * kSecondNs);
}

TEST_F(HostFlow, RefusesBadNeighbours) {
  EXPECT_FALSE(host_->add_static_neighbour(address(kUs4), mac(kPeerMac)));
  EXPECT_FALSE(host_->add_static_neighbour(address("0.0.0.0"), mac(kPeerMac)));
  EXPECT_FALSE(host_->add_static_neighbour(address("ff02::1"), mac(kPeerMac)));
  EXPECT_FALSE(host_->add_static_neighbour(address(kPeer4), mac(kBroadcast)));
  EXPECT_FALSE(host_->add_static_neighbour(address(kPeer4), mac({})));
}

TEST_F(HostFlow, RefusesBadConfigurations) {
  const auto refused = [&](auto change) {
    HostConfig config = default_config();
    change(config);
    return !Host::create(config).has_value();
  };
  EXPECT_FALSE(refused([](HostConfig&) {}));
  EXPECT_TRUE(refused([](HostConfig& config) { config.mac = {}; }));
  EXPECT_TRUE(refused([](HostConfig& config) { config.mac = mac(kBroadcast); }));
  EXPECT_TRUE(refused([](HostConfig& config) { config.packet_pool = nullptr; }));
  EXPECT_TRUE(refused([](HostConfig& config) { config.mtu = 1279; }));
  EXPECT_TRUE(refused([](HostConfig& config) { config.vlan_id = 0; }));
  EXPECT_TRUE(refused([](HostConfig& config) { config.vlan_id = 4095; }));
  EXPECT_TRUE(refused([](HostConfig& config) { config.neighbour_limit = 0; }));
}

}  // namespace
}  // namespace rockhopper::stack::host_flow_test
