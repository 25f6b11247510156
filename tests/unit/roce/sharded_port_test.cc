// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Several engines on one port: whose packet it is, and that each gets its own.
#include <array>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "roce/engine.h"
#include "roce/qpn_steering.h"
#include "stack/clock.h"
#include "stack/mbuf_pool.h"
#include "stack/shard_link.h"
#include "stack/sim/network.h"
#include "stack/worker.h"
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

/// One end of a wire with an engine a shard, of which only the first shard's queue receives: a NIC
/// whose RSS knows nothing of queue pairs.
class Node {
 public:
  static constexpr std::size_t kBytes = 256;

  Node(stack::Link& wire, const stack::Clock& clock, const std::string& address,
       std::uint16_t shards)
      : address_(stack::IpAddress::parse(address).value()), deaf_(wire), steering_(shards) {
    auto pool = stack::MbufPool::create({.size = 2047, .cache = 0});
    pool_ = std::move(*pool);
    rings_ = std::move(*stack::ShardRings::create(shards));
    for (std::uint16_t shard = 0; shard < shards; ++shard) {
      auto& part = parts_.emplace_back(std::make_unique<Part>());
      stack::HostConfig host;
      host.mac = wire.mac();
      host.packet_pool = pool_.get();
      host.silent = shard > 0;
      part->host = std::move(*stack::Host::create(host));
      EXPECT_TRUE(part->host->add_address(address_, 24).has_value());
      part->engine = std::move(*roce::Engine::create({.host = part->host.get(),
                                                      .packet_pool = pool_.get(),
                                                      .random = &random_,
                                                      .max_qp = 16,
                                                      .shards = shards,
                                                      .shard = shard}));
      part->cq = std::move(*roce::CompletionQueue::create(64));
      part->pd = part->engine->allocate_pd();
      part->region =
          *part->engine->register_memory(part->pd, memory.data(), memory.size(), roce::kAccessAll);
      stack::Link& queue = shard == 0 ? wire : static_cast<stack::Link&>(deaf_);
      part->link = std::make_unique<stack::ShardLink>(queue, *rings_, steering_, shard);
      part->worker = std::make_unique<stack::Worker>(*part->link, *part->host, clock);
    }
  }

  roce::QueuePair& make_qp(std::uint16_t shard) {
    Part& part = *parts_[shard];
    auto qp = part.engine->create_qp({.pd = part.pd,
                                      .send_cq = part.cq.get(),
                                      .recv_cq = part.cq.get(),
                                      .max_send_wr = 4,
                                      .max_recv_wr = 1,
                                      .max_send_sge = 1,
                                      .max_recv_sge = 1});
    EXPECT_TRUE(qp.has_value());
    return **qp;
  }
  void poll() {
    for (const auto& part : parts_) (void)part->worker->poll_once();
  }
  [[nodiscard]] std::uint64_t taken_over(std::uint16_t shard) const {
    return parts_[shard]->link->counters().taken_over.value();
  }

  struct Part {
    std::unique_ptr<stack::Host> host;
    std::unique_ptr<roce::CompletionQueue> cq;
    std::unique_ptr<roce::Engine> engine;
    roce::ProtectionDomain pd;
    roce::MemoryRegion region;
    std::unique_ptr<stack::ShardLink> link;
    std::unique_ptr<stack::Worker> worker;
  };
  [[nodiscard]] Part& part(std::uint16_t shard) { return *parts_[shard]; }
  [[nodiscard]] const stack::IpAddress& address() const { return address_; }

  std::array<std::uint8_t, kBytes> memory{};

 private:
  /// Sends only.
  class DeafLink final : public stack::Link {
   public:
    explicit DeafLink(stack::Link& link) : link_(link) {}
    std::uint16_t rx_burst(rte_mbuf**, std::uint16_t, std::uint64_t) override { return 0; }
    std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) override {
      return link_.tx_burst(packets, count, now_ns);
    }
    [[nodiscard]] rte_ether_addr mac() const override { return link_.mac(); }
    [[nodiscard]] std::uint16_t mtu() const override { return link_.mtu(); }

   private:
    stack::Link& link_;
  };

  stack::IpAddress address_;
  stack::MbufPool pool_;
  roce::SeededRandom random_{7};
  DeafLink deaf_;
  QpnSteering steering_;
  std::unique_ptr<stack::ShardRings> rings_;
  std::vector<std::unique_ptr<Part>> parts_;
};

void connect(roce::QueuePair& qp, const stack::IpAddress& own, const stack::IpAddress& peer,
             wire::Qpn peer_qpn) {
  roce::QpAttributes a;
  a.qp_access_flags = roce::kAccessAll;
  a.path_mtu = roce::PathMtu::mtu_256;
  a.dest_qp_num = peer_qpn;
  a.max_rd_atomic = 1;
  a.max_dest_rd_atomic = 1;
  a.timeout = 14;
  a.retry_cnt = 7;
  a.ah_attr.source = own;
  a.ah_attr.destination = peer;
  const auto moved = qp.bring_up(a, roce::QpState::rts);
  ASSERT_TRUE(moved.has_value()) << moved.error().message;
}

TEST(ShardedPort, EachQueuePairIsServedByItsOwnShardWhateverQueueItsPacketsCameOn) {
  constexpr std::uint16_t kShards = 4;
  stack::sim::Network network;
  const auto first = network.add_host();
  const auto second = network.add_host();
  network.add_link(first, second, {});
  ASSERT_TRUE(network.build().has_value());
  Node one(network.nic(first), network.clock(), "192.0.2.1", 1);
  Node many(network.nic(second), network.clock(), "192.0.2.2", kShards);
  for (std::size_t i = 0; i < Node::kBytes; ++i) one.memory[i] = static_cast<std::uint8_t>(i + 1);
  std::vector<roce::QueuePair*> qps;
  for (std::uint16_t shard = 0; shard < kShards; ++shard) {
    roce::QueuePair& near = one.make_qp(0);
    roce::QueuePair& far = many.make_qp(shard);
    EXPECT_EQ(far.number().value % kShards, shard);
    connect(near, one.address(), many.address(), far.number());
    connect(far, many.address(), one.address(), near.number());
    qps.push_back(&near);
    // A WRITE there and a READ back: requests, acknowledgements and answers cross.
    const roce::Sge from{one.part(0).region.iova + 16u * shard, 16, one.part(0).region.key};
    ASSERT_EQ(near.post_send({.sg_list = {&from, 1},
                              .opcode = roce::WrOpcode::rdma_write,
                              .send_flags = roce::kSendSignaled,
                              .remote_addr = many.part(shard).region.iova + 16u * shard,
                              .rkey = many.part(shard).region.key}),
              roce::PostResult::ok);
    const roce::Sge back{one.part(0).region.iova + 128 + 16u * shard, 16, one.part(0).region.key};
    ASSERT_EQ(near.post_send({.sg_list = {&back, 1},
                              .opcode = roce::WrOpcode::rdma_read,
                              .send_flags = roce::kSendSignaled,
                              .remote_addr = many.part(shard).region.iova + 16u * shard,
                              .rkey = many.part(shard).region.key}),
              roce::PostResult::ok);
  }
  std::array<roce::Completion, 2 * kShards> done{};
  std::size_t count = 0;
  for (int turn = 0; turn < 100'000 && count < done.size(); ++turn) {
    network.advance_to(network.now_ns() + 500);
    one.poll();
    many.poll();
    count += one.part(0).cq->poll(std::span(done).subspan(count));
  }
  ASSERT_EQ(count, done.size());
  for (const auto& completion : done) EXPECT_EQ(completion.status, roce::WcStatus::success);
  for (std::size_t i = 0; i < 16u * kShards; ++i) {
    EXPECT_EQ(many.memory[i], static_cast<std::uint8_t>(i + 1));
    EXPECT_EQ(one.memory[128 + i], static_cast<std::uint8_t>(i + 1));
  }
  EXPECT_EQ(many.taken_over(0), 0u);
  for (std::uint16_t shard = 1; shard < kShards; ++shard) {
    EXPECT_GE(many.taken_over(shard), 2u);
    for (const auto& drop : many.part(shard).engine->counters().drops) {
      EXPECT_EQ(drop.value(), 0u);
    }
    const auto& host = many.part(shard).host->counters();
    std::uint64_t answered = 0;
    host.visit(
        [](void* to, const char* name, std::uint64_t value) {
          if (std::string(name) == "arp_replies_sent") *static_cast<std::uint64_t*>(to) = value;
        },
        &answered);
    EXPECT_EQ(answered, 0u) << "only shard 0 answers";
  }
}

/// What engines need that exchange no packets.
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
