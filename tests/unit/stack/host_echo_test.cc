// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <algorithm>
#include <numeric>

#include <netinet/in.h>

#include "tests/unit/stack/host_fixture.h"

namespace rockhopper::stack::host_echo_test {
namespace {

using namespace frames;

constexpr std::uint16_t kIpv4 = 0x0800;
constexpr std::uint16_t kIpv6 = 0x86dd;
constexpr const char* kUs4 = "192.0.2.1";
constexpr const char* kPeer4 = "192.0.2.2";
constexpr const char* kUs6 = "2001:db8::1";
constexpr const char* kPeer6 = "2001:db8::2";

/// Identifier 0x1234, sequence number 1, data.
Bytes echo_body(std::size_t size) {
  Bytes body(4 + size);
  std::iota(body.begin(), body.end(), std::uint8_t{0});
  body[0] = 0x12;
  body[1] = 0x34;
  return body;
}

Bytes packet4(std::uint8_t type, const Bytes& body, std::uint8_t code = 0) {
  return ip_packet(kPeer4, kUs4, IPPROTO_ICMP, icmp(type, code, body));
}

Bytes packet6(std::uint8_t type, const Bytes& body, std::uint8_t code = 0) {
  return ip_packet(kPeer6, kUs6, IPPROTO_ICMPV6, icmpv6(kPeer6, kUs6, type, code, body));
}

Bytes request4(std::size_t size) {
  return ethernet(kOurMac, kPeerMac, kIpv4, packet4(8, echo_body(size)));
}

Bytes reply4(std::size_t size) {
  return ethernet(kPeerMac, kOurMac, kIpv4,
                  ip_packet(kUs4, kPeer4, IPPROTO_ICMP, icmp(0, 0, echo_body(size))));
}

Bytes request6(std::size_t size) {
  return ethernet(kOurMac, kPeerMac, kIpv6, packet6(128, echo_body(size)));
}

Bytes reply6(std::size_t size) {
  return ethernet(
      kPeerMac, kOurMac, kIpv6,
      ip_packet(kUs6, kPeer6, IPPROTO_ICMPV6, icmpv6(kUs6, kPeer6, 129, 0, echo_body(size))));
}

class HostEcho : public HostFixture {};

TEST_F(HostEcho, AnswersRequestsOfEverySize) {
  for (const std::size_t size : {0u, 1u, 17u, 56u, 1400u, 1900u, 2048u, 5001u, 8950u}) {
    now_ns_ += kSecondNs;
    receive(request4(size));
    EXPECT_EQ(sent(), std::vector<Bytes>{reply4(size)}) << size;
    receive(request6(size));
    EXPECT_EQ(sent(), std::vector<Bytes>{reply6(size)}) << size;
  }
  EXPECT_EQ(counter("echo_replies_sent"), 18u);
  EXPECT_TRUE(drops_.empty());
}

TEST_F(HostEcho, AnswersChainsAndIgnoresEthernetPadding) {
  receive(join({request4(3), Bytes(15)}), {13, 1, 20, 0, 8, 5, 13});
  EXPECT_EQ(sent(), std::vector<Bytes>{reply4(3)});
  receive(request6(100), {1, 60, 1, 100});
  EXPECT_EQ(sent(), std::vector<Bytes>{reply6(100)});
}

TEST_F(HostEcho, ATagThatTheNicTookOutComesBack) {
  HostConfig config = default_config();
  config.vlan_id = 9;
  create(config);
  rte_mbuf* packet = rte_pktmbuf_alloc(pool_.get());
  const Bytes frame = request4(10);
  std::copy(frame.begin(), frame.end(),
            rte_pktmbuf_append(packet, static_cast<std::uint16_t>(frame.size())));
  packet->ol_flags |= RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;
  packet->vlan_tci = 9;
  host_->receive(&packet, 1, now_ns_);
  const Bytes packet_bytes = ip_packet(kUs4, kPeer4, IPPROTO_ICMP, icmp(0, 0, echo_body(10)));
  EXPECT_EQ(sent(), std::vector<Bytes>{ethernet_tagged(kPeerMac, kOurMac, 9, kIpv4, packet_bytes)});
}

TEST_F(HostEcho, KeepsTheDscpAndClearsTheEcnBits) {
  receive(ethernet(kOurMac, kPeerMac, kIpv4,
                   ip_packet(kPeer4, kUs4, IPPROTO_ICMP, icmp(8, 0, echo_body(1)),
                             {.traffic_class = 0xb9 | 2, .hop_limit = 1})));
  EXPECT_EQ(sent(), std::vector<Bytes>{
                        ethernet(kPeerMac, kOurMac, kIpv4,
                                 ip_packet(kUs4, kPeer4, IPPROTO_ICMP, icmp(0, 0, echo_body(1)),
                                           {.traffic_class = 0xb8}))});
}

TEST_F(HostEcho, RefusesMalformedRequests) {
  Bytes bad = request4(9);
  bad.back() ^= 1;
  expect_drop(bad, "icmp_bad_checksum");
  bad = request6(9);
  bad.back() ^= 1;
  expect_drop(bad, "icmp_bad_checksum");
  expect_drop(ethernet(kOurMac, kPeerMac, kIpv4, packet4(8, echo_body(1), 3)), "icmp_bad_code");
  expect_drop(ethernet(kOurMac, kPeerMac, kIpv6, packet6(128, echo_body(1), 3)), "icmp_bad_code");
  for (std::size_t size = 0; size < 4; ++size) {
    expect_drop(ethernet(kOurMac, kPeerMac, kIpv4, packet4(8, Bytes(size))), "icmp_truncated");
    expect_drop(ethernet(kOurMac, kPeerMac, kIpv6, packet6(128, Bytes(size))), "icmp_truncated");
    expect_drop(
        ethernet(kOurMac, kPeerMac, kIpv4, ip_packet(kPeer4, kUs4, IPPROTO_ICMP, Bytes(size))),
        "icmp_truncated");
    expect_drop(
        ethernet(kOurMac, kPeerMac, kIpv6, ip_packet(kPeer6, kUs6, IPPROTO_ICMPV6, Bytes(size))),
        "icmp_truncated");
  }
}

TEST_F(HostEcho, RefusesFragmentsGroupsAndOtherMessages) {
  const Bytes message = icmp(8, 0, echo_body(1));
  expect_drop(ethernet(kOurMac, kPeerMac, kIpv4,
                       ip_packet(kPeer4, kUs4, IPPROTO_ICMP, message, {.fragment = 0x2000})),
              "ipv4_fragment");
  expect_drop(ethernet(kBroadcast, kPeerMac, kIpv4,
                       ip_packet(kPeer4, "192.0.2.255", IPPROTO_ICMP, message)),
              "ip_not_ours");
  expect_drop(ethernet({0x33, 0x33, 0, 0, 0, 1}, kPeerMac, kIpv6,
                       ip_packet(kPeer6, "ff02::1", IPPROTO_ICMPV6,
                                 icmpv6(kPeer6, "ff02::1", 128, 0, echo_body(1)))),
              "icmp_group_echo");
  expect_drop(
      ethernet(kOurMac, kPeerMac, kIpv6,
               ip_packet("::", kUs6, IPPROTO_ICMPV6, icmpv6("::", kUs6, 128, 0, echo_body(1)))),
      "ip_bad_source");
  // Replies, unreachable, redirects; ICMPv6 router advertisement, redirect.
  for (const std::uint8_t type : Bytes{0, 3, 5}) {
    expect_drop(ethernet(kOurMac, kPeerMac, kIpv4, packet4(type, echo_body(40))),
                "icmp_unsupported");
  }
  for (const std::uint8_t type : Bytes{129, 134, 137}) {
    expect_drop(ethernet(kOurMac, kPeerMac, kIpv6, packet6(type, echo_body(40))),
                "icmp_unsupported");
  }
}

TEST_F(HostEcho, LimitsItsAnswersToAThousandASecond) {
  for (int i = 0; i < 100; ++i) {
    receive(request4(1));
  }
  EXPECT_EQ(sent().size(), 64u);
  EXPECT_EQ(counter("icmp_rate_limited"), 36u);
  std::size_t answers = 0;
  for (int i = 0; i < 10'000; ++i) {
    now_ns_ += kSecondNs / 10'000;
    receive(request4(1));
    answers += sent().size();
  }
  EXPECT_GE(answers, 999u);
  EXPECT_LE(answers, 1001u);
}

TEST_F(HostEcho, AnEmptyPoolMakesNoAnswer) {
  rte_mbuf* packet = rte_pktmbuf_alloc(pool_.get());
  const Bytes frame = request4(1);
  std::copy(frame.begin(), frame.end(),
            rte_pktmbuf_append(packet, static_cast<std::uint16_t>(frame.size())));
  std::vector<rte_mbuf*> hoard;
  while (rte_mbuf* other = rte_pktmbuf_alloc(pool_.get())) {
    hoard.push_back(other);
  }
  host_->receive(&packet, 1, now_ns_);
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(counter("tx_no_buffer"), 1u);
  rte_pktmbuf_free_bulk(hoard.data(), static_cast<unsigned>(hoard.size()));
}

}  // namespace
}  // namespace rockhopper::stack::host_echo_test
