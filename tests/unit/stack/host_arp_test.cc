// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <algorithm>

#include "tests/unit/stack/host_fixture.h"

namespace rockhopper::stack::host_arp_test {
namespace {

using namespace frames;

constexpr std::uint16_t kArp = 0x0806;
constexpr std::uint16_t kRequest = 1;
constexpr std::uint16_t kReply = 2;
constexpr const char* kUs = "192.0.2.1";
constexpr const char* kPeer = "192.0.2.2";

class HostArp : public HostFixture {
 protected:
  [[nodiscard]] static Bytes request_for(const std::string& target) {
    return ethernet(kBroadcast, kOurMac, kArp, arp(kRequest, kOurMac, kUs, {}, target));
  }
  void receive_reply(const Mac& sender_mac, const std::string& sender_ip) {
    receive(ethernet(kOurMac, sender_mac, kArp, arp(kReply, sender_mac, sender_ip, kOurMac, kUs)));
  }
  /// The destination MAC of what is sent through the flow.
  [[nodiscard]] Mac next_mac(const Flow& flow) {
    const Bytes frame = encapsulated(flow, {1});
    Mac mac;
    std::copy_n(frame.begin(), mac.size(), mac.begin());
    return mac;
  }
};

TEST_F(HostArp, AnswersARequestByteForByte) {
  receive({
      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0xaa, 0xbb, 0xcc, 0xdd,
      0xee, 0x08, 0x06, 0x00, 0x01, 0x08, 0x00, 0x06, 0x04, 0x00, 0x01,  // Ethernet, IPv4, request
      0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 192,  0,    2,    2,           // sender
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 192,  0,    2,    1,           // target
  });
  const Bytes reply{
      0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0x02, 0x11, 0x22, 0x33, 0x44,
      0x55, 0x08, 0x06, 0x00, 0x01, 0x08, 0x00, 0x06, 0x04, 0x00, 0x02,  // Ethernet, IPv4, reply
      0x02, 0x11, 0x22, 0x33, 0x44, 0x55, 192,  0,    2,    1,           // sender
      0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 192,  0,    2,    2,           // target
  };
  EXPECT_EQ(sent(), std::vector<Bytes>{reply});
  EXPECT_EQ(counter("arp_replies_sent"), 1u);
  // RFC 826: who asks us will hear from us, so its MAC is known now.
  Flow flow = flow_to(kPeer);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  EXPECT_EQ(next_mac(flow), kPeerMac);
}

TEST_F(HostArp, ASilentHostLearnsAndAsksButAnswersNothing) {
  HostConfig config = default_config();
  config.silent = true;
  now_ns_ += 1000 * kSecondNs;
  auto host = Host::create(config);
  ASSERT_TRUE(host.has_value());
  host_ = std::move(*host);
  ASSERT_TRUE(host_->add_address(address("192.0.2.1"), 24).has_value());
  ASSERT_TRUE(host_->add_address(address("2001:db8::1"), 64).has_value());
  EXPECT_TRUE(run_until(now_ns_ + 10 * kSecondNs).empty()) << "it announces nothing";
  receive(ethernet(kBroadcast, kPeerMac, kArp, arp(kRequest, kPeerMac, kPeer, {}, kUs)));
  receive(ethernet(kBroadcast, kPeerMac, kArp, arp(kReply, kPeerMac, kUs, kOurMac, kUs)));
  const std::string group = "ff02::1:ff00:1";
  receive(ethernet(
      {0x33, 0x33, 0xff, 0, 0, 1}, kPeerMac, 0x86dd,
      frames::ip_packet(
          "2001:db8::2", group, 58,
          frames::icmpv6("2001:db8::2", group, 135, 0,
                         frames::neighbour(0, "2001:db8::1", frames::link_option(1, kPeerMac))),
          {.hop_limit = 255})));
  receive(ethernet(kOurMac, kPeerMac, 0x0800,
                   frames::ip_packet(kPeer, kUs, 1, frames::icmp(8, 0, Bytes(8)))));
  EXPECT_TRUE(run_until(now_ns_ + kSecondNs).empty()) << "no reply, no defence, no echo";
  for (const char* peer : {kPeer, "2001:db8::2"}) {
    Flow flow = flow_to(peer);
    EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready) << peer;
  }
  Flow flow = flow_to("192.0.2.3");
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
  EXPECT_EQ(sent(), std::vector<Bytes>{request_for("192.0.2.3")});
}

TEST_F(HostArp, TagsItsReplies) {
  HostConfig config = default_config();
  config.vlan_id = 7;
  create(config);
  receive(ethernet_tagged(kBroadcast, kPeerMac, 7, kArp, arp(kRequest, kPeerMac, kPeer, {}, kUs)));
  EXPECT_EQ(sent(), std::vector<Bytes>{ethernet_tagged(
                        kPeerMac, kOurMac, 7, kArp, arp(kReply, kOurMac, kUs, kPeerMac, kPeer))});
}

TEST_F(HostArp, Rfc5227AnswersAProbeAndLearnsNothing) {
  receive(ethernet(kBroadcast, kPeerMac, kArp, arp(kRequest, kPeerMac, "0.0.0.0", {}, kUs)));
  EXPECT_EQ(sent(), std::vector<Bytes>{ethernet(kPeerMac, kOurMac, kArp,
                                                arp(kReply, kOurMac, kUs, kPeerMac, "0.0.0.0"))});
}

TEST_F(HostArp, ResolvesAndSendsToTheAnsweredMac) {
  Flow flow = flow_to(kPeer);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
  EXPECT_EQ(flow.header_length, 0);
  EXPECT_EQ(sent(), std::vector<Bytes>{request_for(kPeer)});
  receive_reply(kPeerMac, kPeer);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  EXPECT_EQ(next_mac(flow), kPeerMac);
  EXPECT_EQ(counter("neighbours_resolved"), 1u);
  EXPECT_TRUE(sent().empty());
}

TEST_F(HostArp, AsksThriceAtLeastASecondApartThenHoldsDown) {
  Flow flow = flow_to(kPeer);
  const std::uint64_t start_ns = now_ns_;
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
  const auto frames = run_until(start_ns + 3'900'000'000);
  ASSERT_EQ(frames.size(), 3u);
  for (const auto& [when_ns, frame] : frames) {
    EXPECT_EQ(frame, request_for(kPeer));
  }
  EXPECT_EQ(frames[0].first, start_ns);
  for (std::size_t i = 1; i < frames.size(); ++i) {
    EXPECT_GE(frames[i].first - frames[i - 1].first, kSecondNs);
    EXPECT_LE(frames[i].first - frames[i - 1].first, kSecondNs * 13 / 10);
  }
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::unreachable);
  EXPECT_EQ(counter("neighbours_failed"), 1u);
  EXPECT_TRUE(run_until(now_ns_ + kSecondNs).empty());
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::unreachable);
  // After the hold-down a new attempt starts.
  EXPECT_TRUE(run_until(now_ns_ + 4 * kSecondNs).empty());
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
  EXPECT_EQ(sent(), std::vector<Bytes>{request_for(kPeer)});
}

TEST_F(HostArp, ALateAnswerEndsTheHoldDown) {
  Flow flow = flow_to(kPeer);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
  (void)run_until(now_ns_ + 5 * kSecondNs);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::unreachable);
  receive_reply(kPeerMac, kPeer);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
}

TEST_F(HostArp, Rfc4861Section73AUsedNeighbourIsProbedAndASilentOneLost) {
  Flow flow = flow_to(kPeer);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
  (void)sent();
  receive_reply(kPeerMac, kPeer);
  ASSERT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  // Reachable for at most 45 seconds; then the next use is noticed and a unicast question follows.
  EXPECT_TRUE(run_until(now_ns_ + 46 * kSecondNs).empty());
  ASSERT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  const Bytes probe = ethernet(kPeerMac, kOurMac, kArp, arp(kRequest, kOurMac, kUs, {}, kPeer));
  auto frames = run_until(now_ns_ + 5'100'000'000);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].second, probe);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  receive_reply(kPeerMac, kPeer);
  EXPECT_TRUE(run_until(now_ns_ + 46 * kSecondNs).empty());
  // Not answered: three unicast questions, three broadcasts, then it is unreachable.
  ASSERT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  frames = run_until(now_ns_ + 14 * kSecondNs);
  ASSERT_EQ(frames.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(frames[i].second, i < 3 ? probe : request_for(kPeer)) << i;
  }
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::unreachable);
}

TEST_F(HostArp, AnUnusedNeighbourIsForgottenWithoutQuestions) {
  receive(ethernet(kBroadcast, kPeerMac, kArp, arp(kRequest, kPeerMac, kPeer, {}, kUs)));
  (void)sent();
  EXPECT_TRUE(run_until(now_ns_ + 700 * kSecondNs).empty());
  Flow flow = flow_to(kPeer);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
}

TEST_F(HostArp, AnAnnouncementMovesAKnownNeighbourAndMakesNoNewOne) {
  const auto announcement = [](const Mac& mac) {
    return ethernet(kBroadcast, mac, kArp, arp(kRequest, mac, kPeer, {}, kPeer));
  };
  Flow flow = flow_to(kPeer);
  receive(announcement(kPeerMac));
  EXPECT_EQ(counter("arp_not_ours"), 1u);
  ASSERT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
  receive_reply(kPeerMac, kPeer);
  ASSERT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  const std::uint64_t generation = flow.neighbour_generation;
  receive(announcement(kOtherMac));
  ASSERT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  EXPECT_NE(flow.neighbour_generation, generation);
  EXPECT_EQ(next_mac(flow), kOtherMac);
  EXPECT_EQ(counter("neighbour_mac_changes"), 1u);
}

TEST_F(HostArp, AClaimToOurAddressIsRefusedAndAnsweredOnceInTenSeconds) {
  const Bytes claim = ethernet(kBroadcast, kPeerMac, kArp, arp(kRequest, kPeerMac, kUs, {}, kUs));
  const Bytes defence = request_for(kUs);
  receive(claim);
  receive(claim);
  EXPECT_EQ(counter("duplicate_address"), 2u);
  EXPECT_EQ(sent(), std::vector<Bytes>{defence});
  now_ns_ += 9 * kSecondNs;
  receive(claim);
  EXPECT_TRUE(sent().empty());
  now_ns_ += 2 * kSecondNs;
  receive(claim);
  EXPECT_EQ(sent(), std::vector<Bytes>{defence});
}

TEST_F(HostArp, RefusesMalformedMessages) {
  const Bytes good = ethernet(kBroadcast, kPeerMac, kArp, arp(kRequest, kPeerMac, kPeer, {}, kUs));
  for (std::size_t size = 14; size < good.size(); ++size) {
    expect_drop(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)),
                "arp_truncated");
  }
  for (const std::size_t at : {15u, 17u, 18u, 19u, 21u}) {
    Bytes bad = good;
    bad[at] = 9;
    expect_drop(bad, "arp_unsupported");
  }
  for (const Mac& sender : {Mac{}, kBroadcast, Mac{0x01, 0, 0x5e, 0, 0, 1}}) {
    expect_drop(ethernet(kOurMac, kPeerMac, kArp, arp(kReply, sender, kPeer, kOurMac, kUs)),
                "arp_bad_sender");
  }
}

TEST_F(HostArp, DoesNotLearnAddressesThatAreNotOnTheLink) {
  for (const char* sender : {"198.51.100.1", "224.0.0.1", "255.255.255.255"}) {
    receive(ethernet(kBroadcast, kPeerMac, kArp, arp(kRequest, kPeerMac, sender, {}, kUs)));
    EXPECT_EQ(sent().size(), 1u);
  }
  HostConfig config = default_config();
  config.neighbour_limit = 2;
  create(config);
  for (int i = 0; i < 20; ++i) {
    const std::string sender = "198.51.100." + std::to_string(i);
    receive(ethernet(kBroadcast, kPeerMac, kArp, arp(kRequest, kPeerMac, sender, {}, kUs)));
    EXPECT_EQ(sent().size(), 1u);
  }
  EXPECT_EQ(counter("neighbours_evicted"), 0u) << "they took room";
  ASSERT_TRUE(host_->set_gateway(address("192.0.2.254")));
  Flow flow = flow_to("198.51.100.1");
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
  EXPECT_EQ(sent(), std::vector<Bytes>{request_for("192.0.2.254")});
}

TEST_F(HostArp, AGatewayOutsideOfAllPrefixesIsOnTheLink) {
  ASSERT_TRUE(host_->set_gateway(address("203.0.113.1")));
  Flow flow = flow_to("198.51.100.1");
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
  EXPECT_EQ(sent(), std::vector<Bytes>{request_for("203.0.113.1")});
  receive_reply(kPeerMac, "203.0.113.1");
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  EXPECT_EQ(next_mac(flow), kPeerMac);
  Flow beside = flow_to("203.0.113.2");
  EXPECT_EQ(host_->resolve(beside, now_ns_), Resolution::ready) << "by the gateway";
}

TEST_F(HostArp, AStaticNeighbourIsNeverAskedNorMoved) {
  ASSERT_TRUE(host_->add_static_neighbour(address(kPeer), mac(kOtherMac)));
  Flow flow = flow_to(kPeer);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  receive_reply(kPeerMac, kPeer);
  receive(ethernet(kBroadcast, kPeerMac, kArp, arp(kRequest, kPeerMac, kPeer, {}, kUs)));
  (void)sent();
  EXPECT_TRUE(run_until(now_ns_ + 1000 * kSecondNs).empty());
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  EXPECT_EQ(next_mac(flow), kOtherMac);
}

TEST_F(HostArp, AFloodOfRequestsDisplacesItselfAndNotTheNeighboursInUse) {
  HostConfig config = default_config();
  config.neighbour_limit = 8;
  create(config);
  Flow flow = flow_to(kPeer);
  ASSERT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
  receive_reply(kPeerMac, kPeer);
  ASSERT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  (void)run_until(now_ns_ + 46 * kSecondNs);
  for (int i = 0; i < 250; ++i) {
    const std::string sender = "192.0.2." + std::to_string(i < 200 ? 3 + i : 3);
    receive(ethernet(kBroadcast, kOtherMac, kArp, arp(kRequest, kOtherMac, sender, {}, kUs)));
    (void)sent();
  }
  EXPECT_GT(counter("neighbours_evicted"), 100u);
  // Still there, although stale: no question needed before the first packet.
  ASSERT_EQ(host_->resolve(flow, now_ns_), Resolution::ready);
  EXPECT_EQ(next_mac(flow), kPeerMac);
}

TEST_F(HostArp, AFullTableRefusesNewNeighbours) {
  HostConfig config = default_config();
  config.neighbour_limit = 2;
  create(config);
  for (const char* peer : {"192.0.2.10", "192.0.2.11"}) {
    Flow flow = flow_to(peer);
    EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
  }
  Flow flow = flow_to("192.0.2.12");
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::unreachable);
  EXPECT_EQ(counter("neighbour_table_full"), 1u);
  EXPECT_FALSE(host_->add_static_neighbour(address("192.0.2.13"), mac(kPeerMac)));
  // The failed ones make room.
  (void)run_until(now_ns_ + 5 * kSecondNs);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
}

TEST_F(HostArp, AnnouncesANewAddressTwice) {
  ASSERT_TRUE(host_->add_address(address("198.51.100.7"), 24));
  EXPECT_LE(host_->next_deadline_ns(), now_ns_);
  const std::uint64_t start_ns = now_ns_;
  const auto frames = run_until(now_ns_ + 20 * kSecondNs);
  const Bytes expected = ethernet(kBroadcast, kOurMac, kArp,
                                  arp(kRequest, kOurMac, "198.51.100.7", {}, "198.51.100.7"));
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].second, expected);
  EXPECT_EQ(frames[1].second, expected);
  EXPECT_EQ(frames[0].first, start_ns);
  EXPECT_GE(frames[1].first, start_ns + 2 * kSecondNs);
}

TEST_F(HostArp, RepliesThatNobodyFetchesAreBounded) {
  for (int i = 0; i < 300; ++i) {
    receive(ethernet(kBroadcast, kPeerMac, kArp, arp(kRequest, kPeerMac, kPeer, {}, kUs)));
  }
  EXPECT_EQ(counter("tx_queue_full"), 300u - 256u);
  EXPECT_EQ(sent().size(), 256u);
}

TEST_F(HostArp, AnEmptyPoolIsCountedAndSurvived) {
  std::vector<rte_mbuf*> hoard;
  while (rte_mbuf* packet = rte_pktmbuf_alloc(pool_.get())) {
    hoard.push_back(packet);
  }
  Flow flow = flow_to(kPeer);
  EXPECT_EQ(host_->resolve(flow, now_ns_), Resolution::pending);
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(counter("tx_no_buffer"), 1u);
  rte_pktmbuf_free_bulk(hoard.data(), static_cast<unsigned>(hoard.size()));
  // The retry gets through.
  EXPECT_FALSE(run_until(now_ns_ + 2 * kSecondNs).empty());
}

}  // namespace
}  // namespace rockhopper::stack::host_arp_test
