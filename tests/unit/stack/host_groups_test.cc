// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Multicast groups: what is received, and the host's side of IGMP and MLD.
#include <algorithm>

#include <netinet/in.h>

#include "tests/unit/stack/host_fixture.h"

namespace rockhopper::stack::host_groups_test {
namespace {

using namespace frames;

constexpr std::uint16_t kIpv4 = 0x0800;
constexpr std::uint16_t kIpv6 = 0x86dd;
constexpr const char* kUs4 = "192.0.2.1";
constexpr const char* kPeer4 = "192.0.2.2";
constexpr const char* kGroup4 = "239.129.2.3";
constexpr Mac kGroupMac4{0x01, 0x00, 0x5e, 0x01, 0x02, 0x03};
constexpr const char* kUsLinkLocal = "fe80::11:22ff:fe33:4455";
constexpr const char* kRouter6 = "fe80::2";
constexpr const char* kGroup6 = "ff0e::1:203:405";
constexpr Mac kGroupMac6{0x33, 0x33, 0x02, 0x03, 0x04, 0x05};
constexpr Mac kAllSystemsMac{0x01, 0x00, 0x5e, 0x00, 0x00, 0x01};
constexpr Mac kAllNodesMac{0x33, 0x33, 0, 0, 0, 1};

/// An IPv4 packet with a Router Alert (RFC 2113).
Bytes alerting4(const std::string& source, const std::string& destination, const Bytes& message) {
  const auto total = static_cast<std::uint8_t>(24 + message.size());
  const Bytes before{0x46, 0xc0, 0, total, 0, 0, 0x40, 0, 1, IPPROTO_IGMP};
  const Bytes behind = join({ip(source), ip(destination), {0x94, 4, 0, 0}});
  return join({before, checksum(join({before, {0, 0}, behind})), behind, message});
}

Bytes igmp(std::uint8_t type, std::uint8_t code, const Bytes& rest) {
  return join({{type, code}, checksum(join({{type, code, 0, 0}, rest})), rest});
}

/// An IPv6 packet with a Router Alert (RFC 2711).
Bytes alerting6(const std::string& source, const std::string& destination, const Bytes& message) {
  return ip_packet(source, destination, 0, join({{58, 0, 5, 2, 0, 0, 1, 0}, message}),
                   {.hop_limit = 1});
}

Bytes mld(const std::string& source, const std::string& destination, std::uint8_t type,
          const Bytes& rest) {
  return alerting6(source, destination, icmpv6(source, destination, type, 0, rest));
}

class HostGroups : public HostFixture {
 protected:
  static Bytes to_group4() {
    return ethernet(kGroupMac4, kPeerMac, kIpv4,
                    ip_packet(kPeer4, kGroup4, IPPROTO_UDP, udp(9, kPort, {1, 2, 3, 4})));
  }
  static Bytes to_group6() {
    return ethernet(kGroupMac6, kPeerMac, kIpv6,
                    ip_packet("2001:db8::2", kGroup6, IPPROTO_UDP, udp(9, kPort, {1, 2, 3, 4})));
  }
  /// A query of IGMP; version 3 has more behind the group.
  static Bytes query4(std::uint8_t code, const std::string& group = "0.0.0.0",
                      const Bytes& more = {}) {
    const bool general = group == "0.0.0.0";
    return ethernet(general ? kAllSystemsMac : kGroupMac4, kPeerMac, kIpv4,
                    alerting4(kPeer4, general ? "224.0.0.1" : group,
                              igmp(0x11, code, join({ip(group), more}))));
  }
  static Bytes query6(std::uint16_t code, const std::string& group = "::", const Bytes& more = {}) {
    const bool general = group == "::";
    return ethernet(
        general ? kAllNodesMac : kGroupMac6, kPeerMac, kIpv6,
        mld(kRouter6, general ? "ff02::1" : group, 130,
            join({{static_cast<std::uint8_t>(code >> 8), static_cast<std::uint8_t>(code), 0, 0},
                  ip(group),
                  more})));
  }
  /// What the host reports of the group: 2 member, 3 left, 4 joined.
  static Bytes report4(std::uint8_t type, const std::string& group = kGroup4) {
    return ethernet({0x01, 0x00, 0x5e, 0, 0, 22}, kOurMac, kIpv4,
                    alerting4(kUs4, "224.0.0.22",
                              igmp(0x22, 0, join({{0, 0, 0, 1, type, 0, 0, 0}, ip(group)}))));
  }
  static Bytes report6(std::uint8_t type, const std::string& group = kGroup6) {
    return ethernet(
        {0x33, 0x33, 0, 0, 0, 0x16}, kOurMac, kIpv6,
        mld(kUsLinkLocal, "ff02::16", 143, join({{0, 0, 0, 1, type, 0, 0, 0}, ip(group)})));
  }
  void join4(const char* group = kGroup4) {
    ASSERT_TRUE(host_->join(address(group)).has_value());
    (void)run_until(now_ns_ + 30 * kSecondNs);
  }
  void join6() {
    ASSERT_TRUE(host_->join(address(kGroup6)).has_value());
    (void)run_until(now_ns_ + 30 * kSecondNs);
  }
};

const Bytes kQueryV3{2, 125, 0, 0};  // robustness, interval, no sources

TEST_F(HostGroups, DatagramsToAGroupAreTakenWhileItIsJoined) {
  expect_drop(to_group4(), "ip_group_not_joined");
  expect_drop(to_group6(), "ip_group_not_joined");
  join4();
  join6();
  for (int i = 0; i < 3; ++i) {
    receive(to_group4());
  }
  receive(to_group6());
  ASSERT_EQ(datagrams_.size(), 4u);
  EXPECT_EQ(datagrams_[2].destination, address(kGroup4));
  EXPECT_EQ(datagrams_[3].destination, address(kGroup6));
  ASSERT_TRUE(host_->leave(address(kGroup4)).has_value());
  ASSERT_TRUE(host_->leave(address(kGroup6)).has_value());
  (void)run_until(now_ns_ + 30 * kSecondNs);
  expect_drop(to_group4(), "ip_group_not_joined");
  expect_drop(to_group6(), "ip_group_not_joined");
}

TEST_F(HostGroups, AGroupIsThereUntilItsLastMemberLeaves) {
  join4();
  ASSERT_TRUE(host_->join(address(kGroup4)).has_value());
  EXPECT_TRUE(sent().empty()) << "nothing has changed for the network";
  ASSERT_TRUE(host_->leave(address(kGroup4)).has_value());
  EXPECT_TRUE(host_->is_member(address(kGroup4)));
  EXPECT_TRUE(sent().empty());
  ASSERT_TRUE(host_->leave(address(kGroup4)).has_value());
  EXPECT_FALSE(host_->is_member(address(kGroup4)));
  EXPECT_EQ(sent(), std::vector<Bytes>{report4(3)});
  EXPECT_FALSE(host_->leave(address(kGroup4)).has_value());
}

TEST_F(HostGroups, OtherGroupsOfTheSameMacAreNotTaken) {
  join4();
  expect_drop(ethernet(kGroupMac4, kPeerMac, kIpv4,
                       ip_packet(kPeer4, "239.1.2.3", IPPROTO_UDP, udp(9, kPort, {1}))),
              "ip_group_not_joined");
}

TEST_F(HostGroups, OnlyGroupsAndNotTooMany) {
  for (const char* bad : {"192.0.2.1", "0.0.0.0", "2001:db8::1", "255.255.255.255"}) {
    EXPECT_FALSE(host_->join(address(bad)).has_value()) << bad;
  }
  for (std::uint32_t i = 0; i < MulticastMembership::kGroupsMax; ++i) {
    ASSERT_TRUE(host_->join(IpAddress::from_ipv4(0xe1000000 + i)).has_value());
  }
  EXPECT_FALSE(host_->join(address(kGroup4)).has_value());
  EXPECT_TRUE(host_->join(IpAddress::from_ipv4(0xe1000000)).has_value()) << "is there already";
  EXPECT_TRUE(host_->join(address(kGroup6)).has_value()) << "the other family's";
}

/// RFC 3376, section 5.1; RFC 3810, section 6.1: "robustness" times, in a second each.
TEST_F(HostGroups, AJoinAndALeaveAreReportedTwice) {
  for (const auto& [joined, expected] : {std::pair{true, 4}, std::pair{false, 3}}) {
    for (const char* group : {kGroup4, kGroup6}) {
      const std::uint64_t start_ns = now_ns_;
      ASSERT_TRUE(
          (joined ? host_->join(address(group)) : host_->leave(address(group))).has_value());
      const auto frames = run_until(now_ns_ + 30 * kSecondNs);
      const auto type = static_cast<std::uint8_t>(expected);
      const Bytes report = group == kGroup4 ? report4(type) : report6(type);
      ASSERT_EQ(frames.size(), 2u) << group;
      EXPECT_EQ(frames[0], std::pair(start_ns, report)) << group;
      EXPECT_EQ(frames[1].second, report) << group;
      EXPECT_LE(frames[1].first - frames[0].first, kSecondNs + (1u << 21));
    }
  }
  EXPECT_EQ(counter("membership_reports_sent"), 8u + 4u) << "and the solicited-node groups'";
}

TEST_F(HostGroups, AnAddressBringsItsSolicitedNodeGroup) {
  ASSERT_TRUE(host_->add_address(address("2001:db8:1::7"), 64).has_value());
  auto frames = run_until(now_ns_ + 30 * kSecondNs);
  EXPECT_EQ(std::count_if(frames.begin(), frames.end(),
                          [](const auto& f) { return f.second == report6(4, "ff02::1:ff00:7"); }),
            2);
  ASSERT_TRUE(host_->remove_address(address("2001:db8:1::7")).has_value());
  EXPECT_EQ(sent(), std::vector<Bytes>{report6(3, "ff02::1:ff00:7")});
}

TEST_F(HostGroups, GroupsOfAllStationsAreNotReported) {
  for (const char* group : {"224.0.0.1", "ff02::1", "ff01::5"}) {
    ASSERT_TRUE(host_->join(address(group)).has_value());
  }
  EXPECT_TRUE(run_until(now_ns_ + 30 * kSecondNs).empty());
}

TEST_F(HostGroups, Rfc3376GeneralQueriesAreAnsweredInTheTimeGiven) {
  join4();
  bool late = false;
  for (int round = 0; round < 20; ++round) {
    const std::uint64_t start_ns = now_ns_;
    receive(query4(10, "0.0.0.0", kQueryV3));
    receive(query4(10, "0.0.0.0", kQueryV3));
    const auto frames = run_until(now_ns_ + 30 * kSecondNs);
    ASSERT_EQ(frames.size(), 1u) << "one answer for both";
    EXPECT_EQ(frames[0].second, report4(2));
    EXPECT_LE(frames[0].first - start_ns, kSecondNs + (1u << 21));
    late = late || frames[0].first - start_ns > kSecondNs / 4;
  }
  EXPECT_TRUE(late) << "not all at once";
  EXPECT_EQ(counter("membership_queries_received"), 40u);
}

TEST_F(HostGroups, Rfc3376GroupQueriesAreAnsweredForTheGroupOnly) {
  join4();
  join4("239.129.2.4");
  receive(query4(10, kGroup4, kQueryV3));
  auto frames = run_until(now_ns_ + 30 * kSecondNs);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].second, report4(2));
  // For certain sources: of which we take all.
  receive(query4(10, kGroup4, {2, 125, 0, 1, 192, 0, 2, 9}));
  frames = run_until(now_ns_ + 30 * kSecondNs);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].second, report4(2));
}

TEST_F(HostGroups, Rfc3810QueriesAreAnswered) {
  join6();
  receive(query6(1000, kGroup6, kQueryV3));
  auto frames = run_until(now_ns_ + 30 * kSecondNs);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].second, report6(2));
  receive(query6(1000, "::", kQueryV3));
  frames = run_until(now_ns_ + 30 * kSecondNs);
  ASSERT_EQ(frames.size(), 1u);
  // With the solicited-node groups of the two addresses.
  const Bytes& report = frames[0].second;
  ASSERT_EQ(report.size(), 14u + 48u + 8u + 3 * 20u);
  EXPECT_EQ(report[14 + 48], 143);
  EXPECT_EQ(report[14 + 48 + 7], 3);
}

TEST_F(HostGroups, ManyGroupsAreToldInAsManyReportsAsItTakes) {
  for (std::uint32_t i = 0; i < 70; ++i) {
    ASSERT_TRUE(host_->join(IpAddress::from_ipv4(0xe1000000 + i)).has_value());
  }
  (void)run_until(now_ns_ + 30 * kSecondNs);
  receive(query4(10, "0.0.0.0", kQueryV3));
  const auto frames = run_until(now_ns_ + 30 * kSecondNs);
  std::size_t records = 0;
  for (const auto& [at_ns, frame] : frames) {
    records += frame.at(14 + 24 + 7);
  }
  EXPECT_EQ(frames.size(), 3u);
  EXPECT_EQ(records, 70u);
}

/// RFC 3376, section 7.2.1: reports to the group, "leave" to all routers, until the querier has
/// been silent for 2 x 125 s and the response time.
TEST_F(HostGroups, Rfc3376AnOldQuerierIsSpokenToInItsVersion) {
  join4();
  receive(query4(100));
  auto frames = run_until(now_ns_ + 30 * kSecondNs);
  ASSERT_EQ(frames.size(), 1u);
  const auto version2 = [](std::uint8_t type, const Mac& mac, const char* to) {
    return ethernet(mac, kOurMac, kIpv4, alerting4(kUs4, to, igmp(type, 0, ip(kGroup4))));
  };
  EXPECT_EQ(frames[0].second, version2(0x16, kGroupMac4, kGroup4));
  ASSERT_TRUE(host_->leave(address(kGroup4)).has_value());
  frames = run_until(now_ns_ + 30 * kSecondNs);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].second, version2(0x17, {0x01, 0, 0x5e, 0, 0, 2}, "224.0.0.2"));
  now_ns_ += 260 * kSecondNs;
  ASSERT_TRUE(host_->join(address(kGroup4)).has_value());
  EXPECT_EQ(sent(), std::vector<Bytes>{report4(4)});
}

TEST_F(HostGroups, Rfc3376Version1HasNoLeave) {
  join4();
  receive(ethernet(kAllSystemsMac, kPeerMac, kIpv4,
                   ip_packet(kPeer4, "224.0.0.1", IPPROTO_IGMP, igmp(0x11, 0, ip("0.0.0.0")))));
  const auto frames = run_until(now_ns_ + 30 * kSecondNs);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].second, ethernet(kGroupMac4, kOurMac, kIpv4,
                                       alerting4(kUs4, kGroup4, igmp(0x12, 0, ip(kGroup4)))));
  ASSERT_TRUE(host_->leave(address(kGroup4)).has_value());
  EXPECT_TRUE(run_until(now_ns_ + 30 * kSecondNs).empty());
}

TEST_F(HostGroups, Rfc3810Version1OfMldIsSpoken) {
  join6();
  receive(query6(1000, kGroup6));
  auto frames = run_until(now_ns_ + 30 * kSecondNs);
  const auto version1 = [](std::uint8_t type, const Mac& mac, const char* to) {
    return ethernet(mac, kOurMac, kIpv6,
                    mld(kUsLinkLocal, to, type, join({{0, 0, 0, 0}, ip(kGroup6)})));
  };
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].second, version1(131, kGroupMac6, kGroup6));
  ASSERT_TRUE(host_->leave(address(kGroup6)).has_value());
  frames = run_until(now_ns_ + 30 * kSecondNs);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].second, version1(132, {0x33, 0x33, 0, 0, 0, 2}, "ff02::2"));
}

/// RFC 2236, section 3: in old versions one report is enough for the router.
TEST_F(HostGroups, AnotherMembersReportSparesOurs) {
  join4();
  receive(query4(100));
  receive(ethernet(kGroupMac4, kPeerMac, kIpv4,
                   alerting4(kPeer4, kGroup4, igmp(0x16, 0, ip(kGroup4)))));
  EXPECT_TRUE(run_until(now_ns_ + 30 * kSecondNs).empty());
}

TEST_F(HostGroups, MalformedAndForgedQueriesAreDropped) {
  join4();
  join6();
  const auto igmp_drop = [&](const Bytes& message, const std::string& reason,
                             const std::string& to = "224.0.0.1") {
    expect_drop(ethernet(kAllSystemsMac, kPeerMac, kIpv4, alerting4(kPeer4, to, message)), reason);
  };
  igmp_drop({0x11, 10, 0, 0, 0, 0, 0, 0}, "igmp_bad_checksum");
  igmp_drop(igmp(0x11, 10, {0, 0, 0}), "igmp_bad_length");
  igmp_drop(igmp(0x11, 10, {0, 0, 0, 0, 0}), "igmp_bad_length");
  igmp_drop(igmp(0x11, 10, {0, 0, 0, 0, 2, 125, 0, 1}), "igmp_bad_length");
  igmp_drop(igmp(0x11, 10, {0, 0, 0, 0, 2, 125, 0xff, 0xff}), "igmp_bad_length");
  igmp_drop(igmp(0x11, 10, ip(kPeer4)), "igmp_bad_group");
  igmp_drop(igmp(0x11, 10, ip("0.0.0.0")), "igmp_bad_destination", kGroup4);
  igmp_drop(igmp(0x16, 0, ip("239.0.0.9")), "igmp_bad_destination", kGroup4);
  igmp_drop(igmp(0x13, 0, ip(kGroup4)), "igmp_unsupported");
  expect_drop(ethernet(kAllSystemsMac, kPeerMac, kIpv4,
                       ip_packet(kPeer4, "224.0.0.1", IPPROTO_IGMP,
                                 igmp(0x11, 10, join({ip("0.0.0.0"), kQueryV3})))),
              "igmp_no_router_alert");

  const Bytes general = join({{0, 0, 0, 0}, Bytes(16), kQueryV3});
  const auto mld_drop = [&](const Bytes& packet, const std::string& reason) {
    expect_drop(ethernet(kAllNodesMac, kPeerMac, kIpv6, packet), reason);
  };
  mld_drop(mld("2001:db8::2", "ff02::1", 130, general), "mld_bad_source");
  mld_drop(mld(kRouter6, "ff02::1", 130, {0, 0, 0, 0}), "mld_bad_length");
  mld_drop(mld(kRouter6, "ff02::1", 130, join({{0, 0, 0, 0}, Bytes(16), {2, 125, 0, 1}})),
           "mld_bad_length");
  mld_drop(mld(kRouter6, "ff02::1", 130, join({{0, 0, 0, 0}, ip("2001:db8::1")})), "mld_bad_group");
  mld_drop(mld(kRouter6, kGroup6, 130, general), "mld_bad_destination");
  mld_drop(mld(kRouter6, "ff02::1", 132, join({{0, 0, 0, 0}, ip(kGroup6)})), "mld_unsupported");
  mld_drop(ip_packet(kRouter6, "ff02::1", 58, icmpv6(kRouter6, "ff02::1", 130, 0, general),
                     {.hop_limit = 1}),
           "mld_no_router_alert");
  Bytes far = mld(kRouter6, "ff02::1", 130, general);
  far[7] = 2;
  mld_drop(far, "mld_bad_hop_limit");
  EXPECT_TRUE(run_until(now_ns_ + 30 * kSecondNs).empty()) << "no answer to any of them";
}

TEST_F(HostGroups, ARouterAlertOpensNoOtherDoor) {
  join4();
  Bytes packet = alerting4(kPeer4, kUs4, udp(9, kPort, {1, 2, 3, 4}));
  packet[9] = IPPROTO_UDP;
  expect_drop(ethernet(kOurMac, kPeerMac, kIpv4, packet), "ipv4_options");
  expect_drop(ethernet(kOurMac, kPeerMac, kIpv6,
                       ip_packet("2001:db8::2", "2001:db8::1", 0,
                                 join({{17, 0, 5, 2, 0, 0, 1, 0}, udp(9, kPort, {1})}))),
              "ipv6_extension_header");
  expect_drop(ethernet(kOurMac, kPeerMac, kIpv6,
                       alerting6("2001:db8::2", "2001:db8::1",
                                 icmpv6("2001:db8::2", "2001:db8::1", 128, 0, {0, 1, 0, 1}))),
              "ipv6_extension_header");
}

TEST_F(HostGroups, Rfc1122EchoRequestsToGroupsStayUnanswered) {
  join4();
  expect_drop(ethernet(kGroupMac4, kPeerMac, kIpv4,
                       ip_packet(kPeer4, kGroup4, IPPROTO_ICMP, icmp(8, 0, {0, 1, 0, 1}))),
              "icmp_group_echo");
}

TEST_F(HostGroups, ThePortIsToldWhichMacsToReceive) {
  const std::uint64_t generation = host_->groups_generation();
  join4();
  ASSERT_TRUE(host_->join(address("239.1.2.3")).has_value()) << "of the same MAC";
  EXPECT_NE(host_->groups_generation(), generation);
  std::vector<Mac> macs;
  for (const rte_ether_addr& mac : host_->group_macs()) {
    macs.emplace_back();
    std::copy_n(mac.addr_bytes, 6, macs.back().begin());
  }
  std::sort(macs.begin(), macs.end());
  EXPECT_EQ(macs, (std::vector<Mac>{kAllSystemsMac,
                                    kGroupMac4,
                                    kAllNodesMac,
                                    {0x33, 0x33, 0xff, 0x00, 0x00, 0x01},
                                    {0x33, 0x33, 0xff, 0x33, 0x44, 0x55}}));
}

}  // namespace
}  // namespace rockhopper::stack::host_groups_test
