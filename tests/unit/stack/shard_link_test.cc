// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/shard_link.h"

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stack/mbuf_pool.h"
#include "stack/port.h"
#include "tests/support/packets.h"

namespace rockhopper::stack {
namespace {

using test::Bytes;
using test::bytes_of;
using test::make_packet;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint8_t kAll = 0xff;

/// By the first byte of the packet: a shard, or kAll.
class ByFirstByte final : public Steering {
 public:
  [[nodiscard]] std::uint16_t shard_of(const rte_mbuf* packet) const override {
    const std::uint8_t first = *rte_pktmbuf_mtod(packet, const std::uint8_t*);
    return first == kAll ? kEveryShard : first;
  }
};

/// What the test puts in arrives; what is sent is freed.
class FedQueue final : public Link {
 public:
  ~FedQueue() override {
    for (rte_mbuf* packet : arrived) {
      rte_pktmbuf_free(packet);
    }
  }
  std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t) override {
    std::uint16_t taken = 0;
    for (; taken < count && !arrived.empty(); ++taken) {
      packets[taken] = arrived.front();
      arrived.pop_front();
    }
    return taken;
  }
  std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t) override {
    rte_pktmbuf_free_bulk(packets, count);
    return count;
  }
  [[nodiscard]] rte_ether_addr mac() const override { return {{2, 0, 0, 0, 0, 7}}; }
  [[nodiscard]] std::uint16_t mtu() const override { return 1234; }

  std::deque<rte_mbuf*> arrived;
};

class ShardLinkTest : public ::testing::Test {
 protected:
  void make(std::uint16_t shards, std::uint32_t ring = 64, std::uint32_t pool_size = 511) {
    auto pool = MbufPool::create({.size = pool_size, .cache = 0});
    ASSERT_TRUE(pool.has_value()) << pool.error().message;
    pool_ = std::move(*pool);
    auto rings = ShardRings::create(shards, ring);
    ASSERT_TRUE(rings.has_value()) << rings.error().message;
    rings_ = std::move(*rings);
    for (std::uint16_t shard = 0; shard < shards; ++shard) {
      queues_.push_back(std::make_unique<FedQueue>());
      links_.push_back(std::make_unique<ShardLink>(*queues_[shard], *rings_, steering_, shard));
    }
  }
  void TearDown() override {
    links_.clear();
    queues_.clear();
    rings_.reset();
    EXPECT_EQ(pool_.in_use(), 0u) << "mbufs leaked";
  }

  /// The second byte tells packets apart.
  void arrive(std::uint16_t queue, std::uint8_t shard, std::uint8_t tag) {
    queues_[queue]->arrived.push_back(make_packet(pool_.get(), Bytes{shard, tag}));
  }
  /// The tags of what one burst brings.
  std::vector<int> burst(std::uint16_t shard, std::uint16_t count = 32) {
    std::vector<rte_mbuf*> packets(count);
    const std::uint16_t received = links_[shard]->rx_burst(packets.data(), count, 0);
    std::vector<int> tags;
    for (std::uint16_t i = 0; i < received; ++i) {
      tags.push_back(bytes_of(packets[i]).at(1));
      rte_pktmbuf_free(packets[i]);
    }
    return tags;
  }

  MbufPool pool_;
  ByFirstByte steering_;
  std::unique_ptr<ShardRings> rings_;
  std::vector<std::unique_ptr<FedQueue>> queues_;
  std::vector<std::unique_ptr<ShardLink>> links_;
};

TEST_F(ShardLinkTest, KeepsItsOwnAndHandsTheOthersOverInOrder) {
  make(4);
  for (std::uint8_t tag = 0; tag < 12; ++tag) {
    arrive(1, tag % 4, tag);
  }
  EXPECT_THAT(burst(1), ElementsAre(1, 5, 9));
  EXPECT_THAT(burst(0), ElementsAre(0, 4, 8));
  EXPECT_THAT(burst(2), ElementsAre(2, 6, 10));
  EXPECT_THAT(burst(3), ElementsAre(3, 7, 11));
  EXPECT_EQ(links_[1]->counters().handed_over.value(), 9u);
  EXPECT_EQ(links_[3]->counters().taken_over.value(), 3u);
  EXPECT_THAT(burst(1), IsEmpty());
}

TEST_F(ShardLinkTest, HandsOverMoreThanABatchAtOnce) {
  make(2, 128);
  for (std::uint8_t tag = 0; tag < 100; ++tag) {
    arrive(0, 1, tag);
  }
  EXPECT_THAT(burst(0, 100), IsEmpty());
  std::vector<int> all;
  for (auto part = burst(1); !part.empty(); part = burst(1)) {
    all.insert(all.end(), part.begin(), part.end());
  }
  ASSERT_EQ(all.size(), 100u);
  for (int tag = 0; tag < 100; ++tag) {
    EXPECT_EQ(all[static_cast<std::size_t>(tag)], tag);
  }
}

TEST_F(ShardLinkTest, ABusyRingLeavesHalfTheBurstToTheQueue) {
  make(2);
  for (std::uint8_t tag = 0; tag < 8; ++tag) {
    arrive(0, 1, tag);
  }
  (void)burst(0);
  for (std::uint8_t tag = 100; tag < 108; ++tag) {
    arrive(1, 1, tag);
  }
  EXPECT_THAT(burst(1, 8), ElementsAre(0, 1, 2, 3, 100, 101, 102, 103));
  EXPECT_THAT(burst(1, 1), ElementsAre(4)) << "a burst of one takes from the ring";
}

TEST_F(ShardLinkTest, WhatIsForEveryShardIsCopiedWhole) {
  make(3);
  queues_[1]->arrived.push_back(make_packet(pool_.get(), Bytes{kAll, 5, 1, 2, 3, 4, 5}, 3));
  for (const std::uint16_t shard : std::initializer_list<std::uint16_t>{1, 0, 2}) {
    rte_mbuf* packet = nullptr;
    ASSERT_EQ(links_[shard]->rx_burst(&packet, 1, 0), 1) << shard;
    EXPECT_EQ(bytes_of(packet), (Bytes{kAll, 5, 1, 2, 3, 4, 5}));
    rte_pktmbuf_free(packet);
  }
  EXPECT_EQ(links_[1]->counters().copied.value(), 2u);
}

TEST_F(ShardLinkTest, ALackOfMbufsCostsTheCopiesOnly) {
  make(3, 64, 7);
  for (int i = 0; i < 7; ++i) {
    arrive(0, kAll, static_cast<std::uint8_t>(i));
  }
  EXPECT_EQ(burst(0).size(), 7u);
  EXPECT_EQ(links_[0]->counters().no_mbuf.value(), 14u);
}

TEST_F(ShardLinkTest, AFullRingLosesTheNewestAndCountsThem) {
  make(2, 10);
  for (std::uint8_t tag = 0; tag < 14; ++tag) {
    arrive(0, 1, tag);
  }
  arrive(0, 0, 99);
  EXPECT_THAT(burst(0), ElementsAre(99)) << "the slow shard holds up no other";
  EXPECT_EQ(links_[0]->counters().hand_over_full.value(), 4u);
  std::vector<int> expected(10);
  for (int tag = 0; tag < 10; ++tag) {
    expected[static_cast<std::size_t>(tag)] = tag;
  }
  EXPECT_EQ(burst(1), expected);
}

TEST_F(ShardLinkTest, RingsFreeWhatIsLeftInThem) {
  make(2);
  for (std::uint8_t tag = 0; tag < 5; ++tag) {
    arrive(0, 1, tag);
  }
  (void)burst(0);
  EXPECT_EQ(pool_.in_use(), 5u);
}  // TearDown checks

TEST_F(ShardLinkTest, IsOtherwiseTheQueue) {
  make(2);
  EXPECT_EQ(links_[0]->mtu(), 1234);
  EXPECT_EQ(links_[0]->mac().addr_bytes[5], 7);
  EXPECT_EQ(links_[0]->next_deadline_ns(), kNever);
  std::map<std::string, std::uint64_t> counters;
  links_[0]->visit_counters(
      [](void* to, const char* name, std::uint64_t value) {
        (*static_cast<std::map<std::string, std::uint64_t>*>(to))[name] = value;
      },
      &counters);
  EXPECT_EQ(counters.size(), 5u);
}

TEST(ShardRings, RefuseImpossibleNumbers) {
  for (const std::uint16_t shards : std::initializer_list<std::uint16_t>{0, 17}) {
    const auto rings = ShardRings::create(shards);
    ASSERT_FALSE(rings.has_value());
    EXPECT_THAT(rings.error().message, HasSubstr("1 to 16 shards"));
  }
  for (const std::uint32_t packets : {0u, 65537u}) {
    const auto rings = ShardRings::create(2, packets);
    ASSERT_FALSE(rings.has_value());
    EXPECT_THAT(rings.error().message, HasSubstr("1 to 65536 packets"));
  }
}

// ThreadSanitizer does not see the barriers of DPDK's rings, on x86 those of the processor itself:
// it would call every packet that crosses a race.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ROCKHOPPER_RINGS_UNSEEN 1
#endif
#endif
#ifndef ROCKHOPPER_RINGS_UNSEEN

// A queue of one thread's feeds three others at once.
TEST(ShardLinkThreads, NothingIsLostOrOvertakenBetweenThreads) {
  constexpr std::uint16_t kShards = 4;
  constexpr std::uint8_t kRounds = 250;
  auto pool = MbufPool::create({.size = 4095, .cache = 0});
  ASSERT_TRUE(pool.has_value());
  auto rings = ShardRings::create(kShards, 1024);
  ASSERT_TRUE(rings.has_value());
  const ByFirstByte steering;
  std::vector<std::unique_ptr<FedQueue>> queues;
  for (std::uint16_t from = 0; from < kShards; ++from) {
    queues.push_back(std::make_unique<FedQueue>());
    for (std::uint8_t round = 0; round < kRounds; ++round) {
      for (std::uint8_t to = 0; to < kShards; ++to) {
        queues[from]->arrived.push_back(
            make_packet(pool->get(), Bytes{to, static_cast<std::uint8_t>(from), round}));
      }
    }
  }
  std::vector<std::string> wrong(kShards);
  const auto serve = [&](std::uint16_t shard) {
    ShardLink link(*queues[shard], **rings, steering, shard);
    std::array<int, kShards> next{};
    std::array<rte_mbuf*, 32> packets;
    for (int received = 0; received < kRounds * kShards && wrong[shard].empty();) {
      const std::uint16_t count = link.rx_burst(packets.data(), 32, 0);
      if (count == 0) std::this_thread::yield();
      for (std::uint16_t i = 0; i < count; ++i) {
        const Bytes bytes = bytes_of(packets[i]);
        rte_pktmbuf_free(packets[i]);
        if (bytes[0] != shard || bytes[2] != next[bytes[1]]++) wrong[shard] = "out of order";
      }
      received += count;
      if (link.counters().hand_over_full.value() > 0) wrong[shard] = "lost";
    }
  };
  std::vector<std::thread> threads;
  for (std::uint16_t shard = 0; shard < kShards; ++shard) {
    threads.emplace_back(serve, shard);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::string& reason : wrong) {
    EXPECT_EQ(reason, "");
  }
  queues.clear();
  rings->reset();
  EXPECT_EQ(pool->in_use(), 0u);
}

#endif

// No device of a machine without NICs has flow rules; the answer must be one that software can act
// on.
TEST(PortFlow, ADeviceWithoutFlowRulesSaysSo) {
  auto port = Port::open({.devargs = "net_ring20", .queues = 2});
  ASSERT_TRUE(port.has_value()) << port.error().message;
  const auto refused =
      (*port)->add_flow_rule({.udp_port = 4791, .payload_offset = 7, .mask = 1, .queue = 1});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("takes no rule for a queue"));
  const auto no_queue = (*port)->add_flow_rule({.udp_port = 4791, .queue = 2});
  ASSERT_FALSE(no_queue.has_value());
  EXPECT_EQ(no_queue.error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace rockhopper::stack
