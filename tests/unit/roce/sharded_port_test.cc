// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Several engines on one port: whose packet it is, and whose number. That each gets its own packets
// is shown in tests/unit/node/sharded_node_test.cc.
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "roce/engine.h"
#include "roce/qpn_steering.h"
#include "stack/host.h"
#include "stack/mbuf_pool.h"
#include "tests/support/packets.h"
#include "tests/unit/stack/frames.h"

namespace rockhopper::test {
namespace {

using roce::QpnSteering;
using stack::Steering;
using ::testing::HasSubstr;

constexpr std::uint16_t kIpv4 = 0x0800;
constexpr std::uint16_t kIpv6 = 0x86dd;
constexpr std::uint16_t kArp = 0x0806;
constexpr std::uint8_t kUdp = 17;
constexpr std::uint8_t kIcmpv6 = 58;

/// A BTH and an ICRC, of which only the destination matters.
Bytes bth_to(std::uint32_t qpn) {
  Bytes bytes(16);
  bytes[5] = static_cast<std::uint8_t>(qpn >> 16);
  bytes[6] = static_cast<std::uint8_t>(qpn >> 8);
  bytes[7] = static_cast<std::uint8_t>(qpn);
  return bytes;
}

class SteeringTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pool = stack::MbufPool::create({.size = 63, .cache = 0});
    ASSERT_TRUE(pool.has_value());
    pool_ = std::move(*pool);
  }
  /// Also cut into pieces, which must not matter.
  std::uint16_t shard_of(const Bytes& frame, std::uint16_t shards = 4) {
    const QpnSteering steering(shards);
    rte_mbuf* whole = make_packet(pool_.get(), frame);
    rte_mbuf* pieces = make_packet(pool_.get(), frame, 5);
    const std::uint16_t shard = steering.shard_of(whole);
    EXPECT_EQ(steering.shard_of(pieces), shard);
    rte_pktmbuf_free(whole);
    rte_pktmbuf_free(pieces);
    return shard;
  }
  static Bytes ipv4_to(const Bytes& l4, std::uint8_t protocol = kUdp) {
    return frames::ethernet(frames::kOurMac, frames::kPeerMac, kIpv4,
                            frames::ip_packet("192.0.2.2", "192.0.2.1", protocol, l4));
  }
  static Bytes ipv6_to(const Bytes& l4, std::uint8_t protocol = kUdp) {
    return frames::ethernet(frames::kOurMac, frames::kPeerMac, kIpv6,
                            frames::ip_packet("2001:db8::2", "2001:db8::1", protocol, l4));
  }
  stack::MbufPool pool_;
};

TEST_F(SteeringTest, GoesByTheLowBitsOfTheDestinationQpn) {
  for (const std::uint32_t qpn : {0x123450u, 0x000011u, 0xfe00feu, 0xabcdefu}) {
    const Bytes datagram = frames::udp(0xc000, 4791, bth_to(qpn));
    EXPECT_EQ(shard_of(ipv4_to(datagram)), qpn % 4) << qpn;
    EXPECT_EQ(shard_of(ipv6_to(datagram)), qpn % 4) << qpn;
    EXPECT_EQ(shard_of(ipv4_to(datagram), 16), qpn % 16) << qpn;
    EXPECT_EQ(shard_of(ipv4_to(datagram), 1), 0) << qpn;
    const Bytes tagged =
        frames::ethernet_tagged(frames::kOurMac, frames::kPeerMac, 7, kIpv4,
                                frames::ip_packet("192.0.2.2", "192.0.2.1", kUdp, datagram));
    EXPECT_EQ(shard_of(tagged), qpn % 4) << qpn;
  }
}

TEST_F(SteeringTest, ManagementIsShardZeros) {
  EXPECT_EQ(shard_of(ipv4_to(frames::udp(0xc000, 4791, bth_to(1)))), 0);
}

TEST_F(SteeringTest, NeighboursMessagesAreForAll) {
  EXPECT_EQ(
      shard_of(frames::ethernet(frames::kBroadcast, frames::kPeerMac, kArp,
                                frames::arp(1, frames::kPeerMac, "192.0.2.2", {}, "192.0.2.1"))),
      Steering::kEveryShard);
  for (const std::uint8_t type : std::initializer_list<std::uint8_t>{135, 136}) {
    const Bytes message =
        frames::icmpv6("2001:db8::2", "2001:db8::1", type, 0, frames::neighbour(0, "2001:db8::1"));
    EXPECT_EQ(shard_of(ipv6_to(message, kIcmpv6)), Steering::kEveryShard);
  }
}

TEST_F(SteeringTest, WhatIsForAGroupIsForAll) {
  const frames::Mac group{0x01, 0x00, 0x5e, 0x01, 0x02, 0x03};
  for (const Bytes& l4 : {frames::udp(0xc000, 4791, bth_to(0xffffff)), Bytes{0x11, 0, 0, 0}}) {
    EXPECT_EQ(shard_of(frames::ethernet(group, frames::kPeerMac, kIpv4,
                                        frames::ip_packet("192.0.2.2", "239.1.2.3", kUdp, l4))),
              Steering::kEveryShard);
  }
}

TEST_F(SteeringTest, AnythingElseIsShardZeros) {
  const Bytes good = ipv4_to(frames::udp(0xc000, 4791, bth_to(3)));
  ASSERT_EQ(shard_of(good), 3);
  EXPECT_EQ(shard_of(ipv4_to(frames::udp(0xc000, 4790, bth_to(3)))), 0) << "another UDP port";
  EXPECT_EQ(shard_of(ipv4_to(frames::udp(0xc000, 4791, bth_to(3)), 6)), 0) << "not UDP";
  const Bytes echo = frames::icmpv6("2001:db8::2", "2001:db8::1", 128, 0, Bytes(4));
  EXPECT_EQ(shard_of(ipv6_to(echo, kIcmpv6)), 0) << "echo";
  Bytes options = good;
  options[14] = 0x46;
  EXPECT_EQ(shard_of(options), 0) << "IPv4 options";
  // Nothing is read behind the end: four bytes of ICRC follow the BTH, of which the last matters.
  for (std::size_t length = 0; length < good.size() - 4; ++length) {
    EXPECT_EQ(shard_of(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length))), 0)
        << length;
  }
}

TEST(SteeringRules, ATableOfOneByteForEachShard) {
  const auto rules = QpnSteering(4).rules();
  ASSERT_EQ(rules.size(), 4u);
  for (std::size_t i = 0; i < rules.size(); ++i) {
    EXPECT_EQ(rules[i].udp_port, 4791);
    EXPECT_EQ(rules[i].payload_offset, 7);
    EXPECT_EQ(rules[i].mask, 3);
    EXPECT_EQ(rules[i].value, i);
    EXPECT_EQ(rules[i].queue, i);
  }
}

/// What engines need that exchange no packets. A Node, which stands above them, would not ask for
/// what they have to refuse.
class EngineMaker {
 public:
  EngineMaker() : pool_(std::move(*stack::MbufPool::create({.size = 63, .cache = 0}))) {
    stack::HostConfig config;
    config.mac = {{2, 0, 0, 0, 0, 1}};
    config.packet_pool = pool_.get();
    host_ = std::move(*stack::Host::create(config));
  }
  [[nodiscard]] Expected<std::unique_ptr<roce::Engine>> make(std::uint16_t shards,
                                                             std::uint16_t shard,
                                                             std::uint32_t max_qp) {
    return roce::Engine::create({.host = host_.get(),
                                 .packet_pool = pool_.get(),
                                 .random = &random_,
                                 .max_qp = max_qp,
                                 .shards = shards,
                                 .shard = shard});
  }

 private:
  stack::MbufPool pool_;
  std::unique_ptr<stack::Host> host_;
  roce::SeededRandom random_{3};
};

TEST(ShardedPort, QpnsCarryTheirShardAndStayDistinct) {
  constexpr std::uint16_t kShards = 8;
  constexpr std::uint32_t kMost = 65'536 / kShards - 1;  // one place is for queue pair 1
  EngineMaker maker;
  const auto engine = std::move(*maker.make(kShards, 5, kMost));
  auto cq = std::move(*roce::CompletionQueue::create(1));
  const auto pd = engine->allocate_pd();
  std::set<std::uint32_t> low;
  for (std::uint32_t i = 0; i < kMost; ++i) {
    auto qp = engine->create_qp({.pd = pd,
                                 .send_cq = cq.get(),
                                 .recv_cq = cq.get(),
                                 .max_send_wr = 1,
                                 .max_recv_wr = 0,
                                 .max_send_sge = 1,
                                 .max_recv_sge = 1});
    ASSERT_TRUE(qp.has_value()) << qp.error().message;
    const std::uint32_t number = (*qp)->number().value;
    ASSERT_EQ(number % kShards, 5u);
    ASSERT_EQ(engine->find_qp((*qp)->number()), *qp);
    ASSERT_EQ(engine->find_qp(wire::Qpn{number ^ 1}), nullptr) << "another shard's";
    low.insert(number & 0xffff);
  }
  EXPECT_EQ(low.size(), kMost) << "every place of the table is used once";
}

TEST(ShardedPort, ImpossibleShardsAreRefused) {
  EngineMaker maker;
  const auto refusal = [&](std::uint16_t shards, std::uint16_t shard, std::uint32_t max_qp) {
    const auto engine = maker.make(shards, shard, max_qp);
    return engine ? std::string() : engine.error().message;
  };
  for (const auto& [shards, shard] : {std::pair{0, 0}, {3, 0}, {32, 0}, {4, 4}}) {
    EXPECT_THAT(refusal(static_cast<std::uint16_t>(shards), static_cast<std::uint16_t>(shard), 1),
                HasSubstr("a power of two up to 16"))
        << shards << ' ' << shard;
  }
  EXPECT_THAT(refusal(4, 0, 16'384), HasSubstr("1 to 16383 queue pairs"));
  EXPECT_EQ(refusal(4, 3, 16'383), "");
}

}  // namespace
}  // namespace rockhopper::test
