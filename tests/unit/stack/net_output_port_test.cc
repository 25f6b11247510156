// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "stack/ecn.h"
#include "stack/ip_header.h"
#include "stack/mbuf_pool.h"
#include "stack/net/output_port.h"
#include "stack/net/pfc_frame.h"
#include "stack/quantity.h"
#include "tests/support/packets.h"
#include "tests/support/seed.h"

namespace rockhopper::stack::net {
namespace {

using test::Bytes;

/// A frame of `size` bytes of an IP packet with this traffic class, IPv4 or IPv6.
Bytes ip_frame(std::size_t size, std::uint8_t traffic_class, bool ipv6 = false, bool tag = false) {
  Bytes frame(size, 0);
  frame[0] = 0x02;
  frame[6] = 0x02;
  std::size_t at = 12;
  if (tag) {
    frame[at] = 0x81;
    frame[at + 2] = 5 << 5;  // priority 5
    at += 4;
  }
  frame[at] = ipv6 ? 0x86 : 0x08;
  frame[at + 1] = ipv6 ? 0xdd : 0x00;
  IpHeader ip;
  ip.protocol = 17;
  ip.traffic_class = traffic_class;
  ip.flow_label = 0xabcde;
  ip.payload_length = static_cast<std::uint16_t>(size - at - 2 - (ipv6 ? 40 : 20));
  ip.source = ipv6 ? IpAddress{{0xfd, 1}} : IpAddress::from_ipv4(0x0a000001);
  ip.destination = ipv6 ? IpAddress{{0xfd, 2}} : IpAddress::from_ipv4(0x0a000002);
  emit_ip(ip, frame.data() + at + 2);
  return frame;
}

class OutputPortTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pool = MbufPool::create({.size = 4095, .cache = 0});
    ASSERT_TRUE(pool.has_value()) << pool.error().message;
    pool_ = std::move(*pool);
  }
  void TearDown() override {
    port_.reset();
    EXPECT_EQ(pool_.in_use(), 0u) << "mbufs have leaked";
  }
  void make(const OutputPortConfig& config) { port_ = std::make_unique<OutputPort>(config); }
  rte_mbuf* packet(const Bytes& bytes) { return test::make_packet(pool_.get(), bytes); }
  void push(const Bytes& bytes) {
    rte_mbuf* made = packet(bytes);
    ASSERT_TRUE(port_->has_room(made->pkt_len));
    port_->push(made, priority_of(made, priorities_));
  }
  /// The bytes of what leaves now, empty if nothing does.
  Bytes take(std::uint64_t now_ns) {
    rte_mbuf* taken = port_->take(now_ns);
    if (taken == nullptr) return {};
    Bytes bytes = test::bytes_of(taken);
    rte_pktmbuf_free(taken);
    return bytes;
  }

  MbufPool pool_;
  std::unique_ptr<OutputPort> port_;
  PriorityMap priorities_;
};

TEST_F(OutputPortTest, TheRateCountsWhatTheWireAdds) {
  make({.rate_bits_per_s = 1'000'000'000});
  // 100 + 24 bytes at 1 Gbit/s take 992 ns; 10 bytes count as 60.
  push(Bytes(100, 1));
  push(Bytes(10, 2));
  push(Bytes(100, 3));
  EXPECT_EQ(take(5000).size(), 100u);
  EXPECT_TRUE(take(5991).empty());
  EXPECT_EQ(port_->next_departure_ns(), 5992u);
  EXPECT_EQ(take(5992).size(), 10u);
  EXPECT_EQ(port_->free_ns(), 5992u + (60 + 24) * 8);
  // An idle port does not save up.
  EXPECT_EQ(take(100'000).size(), 100u);
  EXPECT_EQ(port_->free_ns(), 100'992u);
}

TEST_F(OutputPortTest, FractionsOfANanosecondAddUp) {
  make({.rate_bits_per_s = 100'000'000'000, .queue_packets = 2000});
  for (int i = 0; i < 1000; ++i) {
    push(Bytes(60, 1));
  }
  std::uint64_t now_ns = 0;
  for (; port_->queued_packets() > 0; now_ns = port_->free_ns()) {
    ASSERT_FALSE(take(now_ns).empty());
  }
  EXPECT_EQ(now_ns, 6720u) << "1000 frames of 84 bytes: 6.72 ns each";
}

TEST_F(OutputPortTest, MakesUpForLatePollsWithinBounds) {
  make({.rate_bits_per_s = 1'000'000'000, .catch_up_ns = 3000});
  for (int i = 0; i < 10; ++i) {
    push(Bytes(101, 1));  // 1000 ns each
  }
  int sent = 0;
  while (!take(100'000).empty()) {
    ++sent;
  }
  EXPECT_EQ(sent, 4) << "three of the time made up for, and one of now";
}

TEST_F(OutputPortTest, FrontIsWhatTakeGives) {
  Random random(test::seed());
  for (int round = 0; round < 200; ++round) {
    make({.rate_bits_per_s = random.below(2) * (1 + random.below(10)) * 1'000'000'000,
          .catch_up_ns = random.below(5000)});
    for (std::uint64_t i = random.below(20); i > 0; --i) {
      push(ip_frame(60 + random.below(500), static_cast<std::uint8_t>(random.below(256))));
    }
    port_->pause(static_cast<std::uint8_t>(random.below(8)), 20'000, 0);
    const std::uint64_t now_ns = 10'000;
    std::array<rte_mbuf*, 32> front{};
    const std::uint16_t count = port_->front(front.data(), 32, now_ns);
    const auto part = static_cast<std::uint16_t>(random.below(count + 1u));
    std::uint64_t bytes = 0;
    for (std::uint16_t i = 0; i < part; ++i) {
      bytes += front[i]->pkt_len;
      rte_pktmbuf_free(front[i]);  // as a link that sends it
    }
    ASSERT_EQ(port_->sent(part, now_ns), bytes);
    for (std::uint16_t i = part; i < count; ++i) {
      ASSERT_EQ(port_->take(now_ns), front[i]);
      rte_pktmbuf_free(front[i]);
    }
    ASSERT_EQ(port_->take(now_ns), nullptr);
  }
}

TEST_F(OutputPortTest, HigherPrioritiesGoFirstAndControlBeforeAll) {
  make({});
  const Bytes low = ip_frame(60, 0);
  const Bytes high = ip_frame(60, 48 << 2);  // CS6
  const Bytes tagged = ip_frame(64, 0, false, true);
  push(low);
  push(high);
  push(tagged);
  port_->push_control(packet(Bytes(60, 9)));
  EXPECT_EQ(port_->queued_packets(), 3u) << "control frames do not count";
  EXPECT_EQ(take(0), Bytes(60, 9));
  EXPECT_EQ(take(0), high);
  EXPECT_EQ(take(0), tagged);
  EXPECT_EQ(take(0), low);
}

TEST_F(OutputPortTest, ThePortsTrustChoosesTheQueue) {
  rte_mbuf* tagged = packet(ip_frame(64, 26 << 2, false, true));  // PCP 5, DSCP 26
  rte_mbuf* untagged = packet(ip_frame(64, 26 << 2));
  rte_mbuf* no_ip = packet(Bytes(60, 0));
  PriorityMap map;
  map.of_dscp[26] = 1;
  const std::uint8_t pcp = priority_of(tagged, map);
  EXPECT_NE(pcp, 1);
  EXPECT_EQ(priority_of(untagged, map), 1);
  EXPECT_EQ(priority_of(no_ip, map), 0);
  map.trust = Trust::dscp;
  EXPECT_EQ(priority_of(tagged, map), 1);
  EXPECT_EQ(priority_of(untagged, map), 1);
  EXPECT_EQ(priority_of(no_ip, map), 0);
  for (rte_mbuf* made : {tagged, untagged, no_ip}) {
    rte_pktmbuf_free(made);
  }
}

TEST_F(OutputPortTest, PausesHoldTheirPriorityOnly) {
  make({});
  push(ip_frame(60, 0));
  push(ip_frame(70, 3 << 5));
  port_->pause(3, 500, 100);
  EXPECT_EQ(take(100).size(), 60u);
  EXPECT_TRUE(take(499).empty());
  EXPECT_EQ(port_->next_departure_ns(), 500u);
  port_->pause(3, 400, 400);
  EXPECT_EQ(take(400).size(), 70u);
  EXPECT_EQ(port_->next_departure_ns(), kNever);
  EXPECT_EQ(port_->counters().pauses.value(), 1u) << "the end of a pause is none";
}

TEST_F(OutputPortTest, ItsRoomIsInPacketsAndInBytes) {
  make({.queue_packets = 3, .queue_bytes = 250});
  push(Bytes(100, 1));
  push(Bytes(100, 1));
  EXPECT_TRUE(port_->has_room(50));
  EXPECT_FALSE(port_->has_room(51));
  push(Bytes(10, 1));
  EXPECT_FALSE(port_->has_room(1));
  EXPECT_EQ(port_->longest_bytes(), 210u);
  EXPECT_EQ(port_->clear(), 3u);
  EXPECT_EQ(port_->queued_bytes(), 0u);
}

TEST(EcnMarking, FollowsTheCurve) {
  const EcnMarking marking{.kmin_bytes = 5'000, .kmax_bytes = 205'000, .pmax = 0.01};
  EXPECT_EQ(marking.probability(0), 0);
  EXPECT_EQ(marking.probability(5'000), 0);
  EXPECT_DOUBLE_EQ(marking.probability(105'000), 0.005);
  EXPECT_EQ(marking.probability(205'000), 1);
  EXPECT_FALSE(EcnMarking{}.enabled());
}

TEST(EcnMarking, IsReadFromText) {
  const auto marking = parse_ecn_marking("5KiB,200kB,1%");
  ASSERT_TRUE(marking.has_value());
  EXPECT_EQ(marking->kmin_bytes, 5120u);
  EXPECT_EQ(marking->kmax_bytes, 200'000u);
  EXPECT_DOUBLE_EQ(marking->pmax, 0.01);
  for (const char* text : {"", "1", "1,2", "1,2,3", "2,1,0.5", "0,0,1", "1,2,1%,", "x,2,1"}) {
    EXPECT_FALSE(parse_ecn_marking(text).has_value()) << text;
  }
}

TEST_F(OutputPortTest, MarksCapablePacketsOfLongQueuesAndTheChecksumStaysRight) {
  for (const bool ipv6 : {false, true}) {
    make({.ecn = {.kmin_bytes = 150, .kmax_bytes = 150, .pmax = 1}});
    const std::uint8_t traffic_class = 26 << 2 | kEcnEct0;
    for (int i = 0; i < 3; ++i) {
      push(ip_frame(100, traffic_class, ipv6));
    }
    push(ip_frame(100, 26 << 2, ipv6));  // not capable
    for (int i = 0; i < 4; ++i) {
      const Bytes bytes = take(0);
      ASSERT_EQ(bytes.size(), 100u);
      IpHeader ip;
      const std::span<const std::uint8_t> l3(bytes.data() + 14, 86);
      ASSERT_EQ(ipv6 ? parse_ipv6(l3, 86, ip) : parse_ipv4(l3, 86, false, ip), HostDrop::none) << i;
      // The queue had 0, 100, 200 and 300 bytes before them.
      const int expected = i < 2 ? traffic_class : i == 2 ? traffic_class | kEcnCe : 26 << 2;
      EXPECT_EQ(ip.traffic_class, expected) << i;
      if (ipv6) {
        EXPECT_EQ(ip.flow_label, 0xabcdeu);
      }
    }
    EXPECT_EQ(port_->counters().ecn_marked.value(), 1u);
    EXPECT_EQ(port_->counters().ecn_not_marked.value(), 1u);
  }
}

TEST_F(OutputPortTest, MarksAsOftenAsTheProbabilitySays) {
  make({.queue_packets = SIZE_MAX,
        .ecn = {.kmin_bytes = 0, .kmax_bytes = 1'000, .pmax = 0.5},
        .seed = test::seed()});
  // Half of kmax waits, always: a quarter gets the mark.
  for (int i = 0; i < 5; ++i) {
    push(ip_frame(100, 0));
  }
  constexpr int kPackets = 10'000;
  for (int i = 0; i < kPackets; ++i) {
    push(ip_frame(100, kEcnEct0));
    ASSERT_FALSE(take(0).empty());
  }
  const auto marked = static_cast<double>(port_->counters().ecn_marked.value());
  EXPECT_GT(marked, kPackets * 0.2);
  EXPECT_LT(marked, kPackets * 0.3);
}

TEST_F(OutputPortTest, SharedPacketsAreNotWrittenTo) {
  rte_mbuf* shared = packet(ip_frame(100, kEcnEct0));
  rte_mbuf_refcnt_update(shared, 1);
  EXPECT_EQ(mark_congestion_experienced(shared), CeMark::not_writable);
  rte_mbuf_refcnt_update(shared, -1);
  EXPECT_EQ(mark_congestion_experienced(shared), CeMark::marked);
  EXPECT_EQ(mark_congestion_experienced(shared), CeMark::marked);
  rte_pktmbuf_free(shared);
  for (const Bytes& bytes : {Bytes(3, 0), Bytes(60, 0), ip_frame(60, 0)}) {
    rte_mbuf* other = packet(bytes);
    EXPECT_EQ(mark_congestion_experienced(other), CeMark::not_capable);
    EXPECT_EQ(priority_of(other, priorities_), 0);
    rte_pktmbuf_free(other);
  }
}

TEST_F(OutputPortTest, PauseFramesAreReadAsWritten) {
  PfcFrame frame;
  frame.priorities = 1 << 3 | 1 << 7;
  frame.quanta[3] = PfcFrame::kQuantaMax;
  frame.quanta[7] = 0x1234;
  rte_mbuf* made = make_pfc(frame, {{2, 0, 0, 0, 0, 1}}, pool_.get());
  ASSERT_NE(made, nullptr);
  // 802.3 annex 31D: group address, type, opcode, class enable vector, eight times.
  const Bytes bytes = test::bytes_of(made);
  const Bytes expected{0x01, 0x80, 0xC2, 0,    0, 1,    2, 0, 0,    0,   0, 1,
                       0x88, 0x08, 0x01, 0x01, 0, 0x88, 0, 0, 0,    0,   0, 0,
                       0xff, 0xff, 0,    0,    0, 0,    0, 0, 0x12, 0x34};
  ASSERT_EQ(bytes.size(), 60u);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), bytes.begin()));
  const auto parsed = parse_pfc(made);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->priorities, frame.priorities);
  EXPECT_EQ(parsed->quanta, frame.quanta);
  rte_pktmbuf_free(made);
  EXPECT_EQ(pause_ns(1, 1'000'000'000), 512u);
  rte_mbuf* other = packet(Bytes(60, 1));
  EXPECT_FALSE(parse_pfc(other).has_value());
  rte_pktmbuf_free(other);
}

TEST(Quantity, BytesTimesAndRates) {
  std::uint64_t value = 0;
  EXPECT_TRUE(parse_bytes("64KiB", value));
  EXPECT_EQ(value, 65536u);
  EXPECT_TRUE(parse_bytes("1.5MB", value));
  EXPECT_EQ(value, 1'500'000u);
  EXPECT_TRUE(parse_bytes("17", value));
  EXPECT_EQ(value, 17u);
  EXPECT_TRUE(parse_bytes("1K", value));
  EXPECT_EQ(value, 1024u);
  EXPECT_TRUE(parse_bytes("1e3", value));
  EXPECT_EQ(value, 1000u);
  EXPECT_TRUE(parse_time("2.5us", value));
  EXPECT_EQ(value, 2500u);
  EXPECT_TRUE(parse_rate("100Gbit", value));
  EXPECT_EQ(value, 100'000'000'000u);
  for (const char* text : {"", "x", "-1", "1 kB", "1T", "9999TiB", "1e13", "1e", "1e+3"}) {
    EXPECT_FALSE(parse_bytes(text, value)) << text;
  }
  EXPECT_FALSE(parse_rate("0bit", value));
}

}  // namespace
}  // namespace rockhopper::stack::net
