// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// A node with several engines on one port: each queue pair gets its own packets, on one thread and
// on an lcore for each engine.
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rte_lcore.h>

#include "apps/node/node.h"
#include "stack/cable.h"
#include "stack/clock.h"
#include "stack/sim/network.h"

namespace rockhopper::test {
namespace {

using ::testing::HasSubstr;

/// Sends only.
class DeafLink final : public stack::Link {
 public:
  explicit DeafLink(stack::Link& link) : link_(link) {}
  [[nodiscard]] std::uint16_t rx_burst(rte_mbuf**, std::uint16_t, std::uint64_t) override {
    return 0;
  }
  [[nodiscard]] std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override {
    return link_.tx_burst(packets, count, now_ns);
  }
  [[nodiscard]] rte_ether_addr mac() const override { return link_.mac(); }
  [[nodiscard]] std::uint16_t mtu() const override { return link_.mtu(); }

 private:
  stack::Link& link_;
};

/// A node with memory that each shard has registered, and a completion queue a shard.
class Endpoint {
 public:
  static constexpr std::size_t kBytes = 256;

  /// A shard for each link.
  Endpoint(const std::vector<stack::Link*>& links, const char* address,
           const stack::Clock* clock = nullptr, rte_mempool* pool = nullptr) {
    const auto shards = static_cast<std::uint16_t>(links.size());
    auto opened = Node::open({.port = LinkPort{links},
                              .mtu = 1500,
                              .addresses = {InterfaceAddress::parse(address).value()},
                              .shards = shards,
                              .engine = {.max_qp = 16},
                              .clock = clock,
                              .idle = stack::IdlePolicy::yield,
                              .packet_pool = pool});
    if (!opened) {
      ADD_FAILURE() << opened.error().message;
      std::abort();
    }
    node_ = std::move(*opened);
    for (std::uint16_t shard = 0; shard < shards; ++shard) {
      Part& part = parts_.emplace_back();
      roce::Engine& engine = node_->shard(shard).engine();
      part.cq = std::move(*roce::CompletionQueue::create(64));
      part.pd = engine.allocate_pd();
      part.region =
          *engine.register_memory(part.pd, memory.data(), memory.size(), roce::kAccessAll);
    }
  }

  roce::QueuePair& make_qp(std::uint16_t shard) {
    const Part& part = parts_.at(shard);
    auto qp = node_->shard(shard).engine().create_qp({.pd = part.pd,
                                                      .send_cq = part.cq.get(),
                                                      .recv_cq = part.cq.get(),
                                                      .max_send_wr = 64,
                                                      .max_recv_wr = 1});
    EXPECT_TRUE(qp.has_value());
    return **qp;
  }
  [[nodiscard]] Node& node() { return *node_; }
  [[nodiscard]] roce::CompletionQueue& cq(std::uint16_t shard) { return *parts_.at(shard).cq; }
  [[nodiscard]] const roce::MemoryRegion& region(std::uint16_t shard) const {
    return parts_.at(shard).region;
  }
  [[nodiscard]] std::uint64_t taken_over(std::uint16_t shard) const {
    return node_->links().shard_link(shard).counters().taken_over.value();
  }

  std::array<std::uint8_t, kBytes> memory{};

 private:
  struct Part {
    std::unique_ptr<roce::CompletionQueue> cq;
    roce::ProtectionDomain pd;
    roce::MemoryRegion region;
  };
  std::vector<Part> parts_;  ///< outlives the engines, which use its queues
  std::unique_ptr<Node> node_;
};

void connect(roce::QueuePair& qp, const Node& own, const Node& peer, wire::Qpn peer_qpn) {
  roce::QpAttributes a;
  a.qp_access_flags = roce::kAccessAll;
  a.path_mtu = roce::PathMtu::mtu_256;
  a.dest_qp_num = peer_qpn;
  a.max_rd_atomic = 1;
  a.max_dest_rd_atomic = 1;
  a.ah_attr = {.source = own.address(), .destination = peer.address()};
  const auto moved = qp.bring_up(a, roce::QpState::rts);
  ASSERT_TRUE(moved.has_value()) << moved.error().message;
}

/// From `offset` of the requester's memory to the same place of the target's, or back.
void post(roce::QueuePair& qp, roce::WrOpcode opcode, const roce::MemoryRegion& own,
          std::size_t offset, const roce::MemoryRegion& far, std::size_t far_offset) {
  const roce::Sge sge{own.iova + offset, 16, own.key};
  ASSERT_EQ(qp.post_send({.sg_list = {&sge, 1},
                          .opcode = opcode,
                          .send_flags = roce::kSendSignaled,
                          .remote_addr = far.iova + far_offset,
                          .rkey = far.key}),
            roce::PostResult::ok);
}

TEST(ShardedNode, EachQueuePairIsServedByItsOwnShardWhateverQueueItsPacketsCameOn) {
  constexpr std::uint16_t kShards = 4;
  const stack::MbufPool pool = std::move(*stack::MbufPool::create({.size = 2047, .cache = 0}));
  stack::sim::Network network;
  const auto first = network.add_host();
  const auto second = network.add_host();
  network.add_link(first, second, {});
  ASSERT_TRUE(network.build().has_value());
  // Only the first shard's queue receives: a NIC whose RSS knows nothing of queue pairs.
  stack::Link& wire = network.nic(second);
  DeafLink deaf(wire);
  Endpoint one({&network.nic(first)}, "192.0.2.1/24", &network.clock(), pool.get());
  Endpoint many({&wire, &deaf, &deaf, &deaf}, "192.0.2.2/24", &network.clock(), pool.get());
  for (std::size_t i = 0; i < Endpoint::kBytes; ++i) {
    one.memory[i] = static_cast<std::uint8_t>(i + 1);
  }
  for (std::uint16_t shard = 0; shard < kShards; ++shard) {
    roce::QueuePair& near = one.make_qp(0);
    roce::QueuePair& far = many.make_qp(shard);
    EXPECT_EQ(far.number().value % kShards, shard);
    connect(near, one.node(), many.node(), far.number());
    connect(far, many.node(), one.node(), near.number());
    // A WRITE there and a READ back: requests, acknowledgements and answers cross.
    const std::size_t at = 16u * shard;
    post(near, roce::WrOpcode::rdma_write, one.region(0), at, many.region(shard), at);
    post(near, roce::WrOpcode::rdma_read, one.region(0), 128 + at, many.region(shard), at);
  }
  std::array<roce::Completion, 2 * kShards> done{};
  std::size_t count = 0;
  for (int turn = 0; turn < 100'000 && count < done.size(); ++turn) {
    network.advance_to(network.now_ns() + 500);
    one.node().turn();
    many.node().turn();
    count += one.cq(0).poll(std::span(done).subspan(count));
  }
  ASSERT_EQ(count, done.size());
  for (const auto& completion : done) {
    EXPECT_EQ(completion.status, roce::WcStatus::success);
  }
  for (std::size_t i = 0; i < 16u * kShards; ++i) {
    EXPECT_EQ(many.memory[i], static_cast<std::uint8_t>(i + 1));
    EXPECT_EQ(one.memory[128 + i], static_cast<std::uint8_t>(i + 1));
  }
  EXPECT_EQ(many.taken_over(0), 0u);
  for (std::uint16_t shard = 1; shard < kShards; ++shard) {
    EXPECT_GE(many.taken_over(shard), 2u);
    for (const auto& drop : many.node().shard(shard).engine().counters().drops) {
      EXPECT_EQ(drop.value(), 0u);
    }
    std::uint64_t answered = 0;
    many.node().shard(shard).host().counters().visit(
        [](void* to, const char* name, std::uint64_t value) {
          if (std::string(name) == "arp_replies_sent") *static_cast<std::uint64_t*>(to) = value;
        },
        &answered);
    EXPECT_EQ(answered, 0u) << "only shard 0 answers";
  }
}

/// Keeps WRITEs of one queue pair under way, on the lcore that serves its shard.
class Writer final : public stack::Application {
 public:
  Writer(Endpoint& near, std::uint16_t shard, roce::QueuePair& qp, const roce::MemoryRegion& far)
      : near_(near), shard_(shard), qp_(qp), far_(far) {
    for (int i = 0; i < 8; ++i) {
      write();
    }
  }
  std::uint64_t turn(std::uint64_t /*now_ns*/) override {
    lcore = rte_lcore_id();
    std::array<roce::Completion, 8> done;
    const std::size_t count = near_.cq(shard_).poll(done);
    for (std::size_t i = 0; i < count; ++i) {
      if (done[i].status != roce::WcStatus::success) failed = true;
      write();
    }
    completed += static_cast<unsigned>(count);
    return stack::kNever;
  }

  std::atomic<unsigned> lcore{LCORE_ID_ANY};
  std::atomic<unsigned> completed{0};
  std::atomic<bool> failed{false};

 private:
  void write() {
    post(qp_, roce::WrOpcode::rdma_write, near_.region(shard_), 16u * shard_, far_, 16u * shard_);
  }
  Endpoint& near_;
  std::uint16_t shard_;
  roce::QueuePair& qp_;
  const roce::MemoryRegion& far_;
};

/// The two shards of a node run on lcores of their own, and those of its peer on the main one, by
/// turns. A queue pair's peer is on the other shard, so that its acknowledgements come on the other
/// link, and cross between the lcores.
TEST(ShardedNode, ShardsRunOnLcoresWithTheirApplications) {
  constexpr std::uint16_t kShards = 2;
  constexpr unsigned kWrites = 1000;
  const std::array cables{std::move(*stack::Cable::create({.mtu = 1500})),
                          std::move(*stack::Cable::create({.mtu = 1500}))};
  Endpoint one({&cables[0]->end(0), &cables[1]->end(0)}, "192.0.2.1/24");
  Endpoint many({&cables[0]->end(1), &cables[1]->end(1)}, "192.0.2.2/24");
  for (std::size_t i = 0; i < Endpoint::kBytes; ++i) {
    many.memory[i] = static_cast<std::uint8_t>(i + 1);
  }
  std::vector<std::unique_ptr<Writer>> writers;
  for (std::uint16_t shard = 0; shard < kShards; ++shard) {
    roce::QueuePair& near = many.make_qp(shard);
    const auto other = static_cast<std::uint16_t>(1 - shard);
    roce::QueuePair& far = one.make_qp(other);
    connect(near, many.node(), one.node(), far.number());
    connect(far, one.node(), many.node(), near.number());
    writers.push_back(std::make_unique<Writer>(many, shard, near, one.region(other)));
  }
  unsigned lcore = rte_get_next_lcore(static_cast<unsigned>(-1), 1, 0);
  std::vector<unsigned> lcores;
  for (std::uint16_t shard = 0; shard < kShards; ++shard) {
    ASSERT_LT(lcore, unsigned{RTE_MAX_LCORE}) << "the test needs three lcores";
    lcores.push_back(lcore);
    const auto launched = many.node().launch(shard, lcore, writers[shard].get());
    ASSERT_TRUE(launched.has_value()) << launched.error().message;
    lcore = rte_get_next_lcore(lcore, 1, 0);
  }
  const auto again = many.node().launch(0, lcores[1]);
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code, ErrorCode::invalid_state);
  EXPECT_FALSE(many.node().turn()) << "nothing is left to this thread";
  EXPECT_EQ(many.node().next_deadline_ns(), stack::kNever);
  const std::uint64_t end_ns = one.node().now_ns() + 60'000'000'000;
  const auto all_written = [&] {
    return writers[0]->completed >= kWrites && writers[1]->completed >= kWrites;
  };
  while (!all_written() && one.node().now_ns() < end_ns) {
    one.node().turn();
  }
  many.node().stop();
  EXPECT_TRUE(all_written()) << writers[0]->completed << " and " << writers[1]->completed;
  for (std::uint16_t shard = 0; shard < kShards; ++shard) {
    EXPECT_FALSE(writers[shard]->failed);
    EXPECT_EQ(writers[shard]->lcore, lcores[shard]);
    EXPECT_GT(many.taken_over(shard), 0u) << "its acknowledgements come on the other's link";
    for (std::size_t i = 16u * shard; i < 16u * (shard + 1u); ++i) {
      EXPECT_EQ(one.memory[i], static_cast<std::uint8_t>(i + 1));
    }
  }
}

TEST(ShardedNode, WhatCannotBeIsRefused) {
  const auto cable = std::move(*stack::Cable::create());
  const auto refusal = [&](NodeConfig config) {
    const auto node = Node::open(std::move(config));
    return node ? std::string() : node.error().message;
  };
  EXPECT_THAT(refusal({.port = LinkPort{{&cable->end(0)}}, .shards = 3}),
              HasSubstr("a power of two up to 16"));
  EXPECT_THAT(refusal({.port = LinkPort{{&cable->end(0)}}, .shards = 0}),
              HasSubstr("a power of two up to 16"));
  EXPECT_THAT(refusal({.port = LinkPort{{&cable->end(0)}}, .shards = 2}),
              HasSubstr("a link for each"));
  EXPECT_THAT(refusal({.port = LinkPort{{&cable->end(0), &cable->end(1)}},
                       .shards = 2,
                       .faults = stack::FaultConfig{}}),
              HasSubstr("of one link"));
  EXPECT_THAT(refusal({.port = MemifPort{.memif = {}, .links = 2}, .shards = 2}),
              HasSubstr("one shard"));
  auto node = std::move(*Node::open({.port = LinkPort{{&cable->end(0)}}}));
  EXPECT_EQ(node->launch(1, 1).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(node->launch(0, rte_get_main_lcore()).error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace rockhopper::test
