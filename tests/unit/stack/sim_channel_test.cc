// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <array>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "stack/mbuf_pool.h"
#include "stack/sim/channel.h"
#include "stack/sim/network.h"
#include "tests/support/packets.h"
#include "tests/support/seed.h"

namespace rockhopper::stack::sim {
namespace {

using test::bytes_of;
using test::make_packet;
using test::random_bytes;

/// Two polled hosts on one link.
class LinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pool = MbufPool::create({.size = 1023, .cache = 0});
    ASSERT_TRUE(pool.has_value()) << pool.error().message;
    pool_ = std::move(*pool);
  }
  void TearDown() override {
    network_.reset();
    EXPECT_EQ(pool_.in_use(), 0u);
  }
  void join(const LinkConfig& config) {
    network_ = std::make_unique<Network>(0);
    const NodeIndex first = network_->add_host();
    const NodeIndex second = network_->add_host();
    network_->add_link(first, second, config);
    ASSERT_TRUE(network_->build().has_value());
  }
  [[nodiscard]] Nic& end(NodeIndex index) { return network_->nic(index); }

  MbufPool pool_;
  std::unique_ptr<Network> network_;
  std::array<rte_mbuf*, 64> packets_{};
};

TEST_F(LinkTest, DeliversInOrderAfterTheDelay) {
  join({.delay_ns = 500});
  std::vector<std::vector<std::uint8_t>> sent;
  Random random(test::seed());
  for (std::uint64_t i = 0; i < 3; ++i) {
    sent.push_back(random_bytes(random, 60 + i));
    sent.back()[12] = 0x88;  // no IP packet: all of one priority
    rte_mbuf* packet = make_packet(pool_.get(), sent.back());
    ASSERT_EQ(end(0).tx_burst(&packet, 1, 1000 + i), 1);
  }
  EXPECT_EQ(end(0).next_deadline_ns(), kNever);
  EXPECT_EQ(end(1).next_deadline_ns(), 1500u);
  EXPECT_EQ(end(1).rx_burst(packets_.data(), 64, 1499), 0);
  ASSERT_EQ(end(1).rx_burst(packets_.data(), 64, 1501), 2);
  EXPECT_EQ(bytes_of(packets_[0]), sent[0]);
  EXPECT_EQ(bytes_of(packets_[1]), sent[1]);
  EXPECT_EQ(end(1).next_deadline_ns(), 1502u);
  ASSERT_EQ(end(1).rx_burst(packets_.data() + 2, 62, 9999), 1);
  EXPECT_EQ(bytes_of(packets_[2]), sent[2]);
  rte_pktmbuf_free_bulk(packets_.data(), 3);
}

TEST_F(LinkTest, PushesBackWhenFullAndLosesNothing) {
  join({.delay_ns = 10, .in_flight_packets = 4});
  std::array<rte_mbuf*, 6> offered;
  for (auto& packet : offered) {
    packet = make_packet(pool_.get(), {1, 2, 3});
  }
  EXPECT_EQ(end(1).tx_burst(offered.data(), 6, 0), 4);
  EXPECT_EQ(end(1).counters().backpressure.value(), 2u);
  EXPECT_EQ(end(1).tx_burst(offered.data() + 4, 2, 5), 0);
  ASSERT_EQ(end(0).rx_burst(packets_.data(), 1, 10), 1);
  EXPECT_EQ(packets_[0], offered[0]);
  EXPECT_EQ(end(1).tx_burst(offered.data() + 4, 2, 10), 1);
  rte_pktmbuf_free(packets_[0]);
  rte_pktmbuf_free(offered[5]);
  // The rest is in flight: the network frees it.
}

/// Takes what has come when it is told so.
class Taker final : public NicListener {
 public:
  explicit Taker(Nic& nic) : nic_(nic) { nic.set_listener(this); }
  ~Taker() override { nic_.set_listener(nullptr); }
  void on_packets(std::uint64_t now_ns) override {
    std::array<rte_mbuf*, 16> packets;
    const std::uint16_t count = nic_.rx_burst(packets.data(), packets.size(), now_ns);
    rte_pktmbuf_free_bulk(packets.data(), count);
    taken += count;
  }
  void on_room(std::uint64_t /*now_ns*/) override {}

  unsigned taken = 0;

 private:
  Nic& nic_;
};

/// A host with a timer may look just when a packet arrives, before it is told of it. The link goes
/// on with what waits to leave.
TEST_F(LinkTest, GoesOnWhereTheArrivalHasBeenTakenAlready) {
  // A frame of 60 bytes and 24 more at 1 Gbit/s, and the delay.
  constexpr std::uint64_t kArrivalNs = 672 + 100;
  join({.rate_bits_per_s = 1'000'000'000, .delay_ns = 100});
  Taker taker(end(1));
  for (int i = 0; i < 3; ++i) {
    rte_mbuf* packet = make_packet(pool_.get(), std::vector<std::uint8_t>(60, 0x88));
    ASSERT_EQ(end(0).tx_burst(&packet, 1, 0), 1);
  }
  // Then only the event that tells of it is due.
  (void)network_->run_until(kArrivalNs - 1);
  ASSERT_EQ(end(1).rx_burst(packets_.data(), 64, kArrivalNs), 1);
  rte_pktmbuf_free(packets_[0]);
  (void)network_->run_until(10'000);
  EXPECT_EQ(taker.taken, 2u);
}

TEST_F(LinkTest, CopiesAndCutsPacketsWithoutChangingThem) {
  join({.copy_pool = pool_.get(), .segment_seed = 7});
  Random random(test::seed());
  unsigned chains = 0;
  for (unsigned i = 0; i < 200; ++i) {
    const auto bytes = random_bytes(random, 1 + random.below(1500));
    rte_mbuf* packet = make_packet(pool_.get(), bytes);
    packet->ol_flags |= RTE_MBUF_F_TX_IPV4;
    ASSERT_EQ(end(0).tx_burst(&packet, 1, i), 1);
    rte_mbuf* received = nullptr;
    ASSERT_EQ(end(1).rx_burst(&received, 1, i + 1000), 1);
    EXPECT_EQ(bytes_of(received), bytes);
    EXPECT_EQ(received->ol_flags, 0u);
    EXPECT_EQ(rte_mbuf_check(received, 1, nullptr), 0);
    if (received->nb_segs > 1) ++chains;
    rte_pktmbuf_free(received);
  }
  EXPECT_GT(chains, 50u);
}

TEST_F(LinkTest, KeepsAnArrivalForWhichThereIsNoMbuf) {
  auto small = MbufPool::create({.size = 1, .cache = 0});
  ASSERT_TRUE(small.has_value());
  join({.delay_ns = 0, .copy_pool = small->get()});
  std::array<rte_mbuf*, 2> offered;
  for (auto& packet : offered) {
    packet = make_packet(pool_.get(), {1, 2, 3});
  }
  ASSERT_EQ(end(0).tx_burst(offered.data(), 2, 0), 2);
  ASSERT_EQ(end(1).rx_burst(packets_.data(), 2, 0), 1);
  EXPECT_EQ(end(1).incoming().counters().no_mbuf.value(), 1u);
  rte_pktmbuf_free(packets_[0]);
  ASSERT_EQ(end(1).rx_burst(packets_.data(), 2, 0), 1);
  rte_pktmbuf_free(packets_[0]);
}

TEST_F(LinkTest, FaultsActOnTheirDirectionOnly) {
  FaultConfig faults;
  faults.tx.loss = 1;
  join({.delay_ns = 10, .faults = faults, .pool = pool_.get()});
  for (const NodeIndex from : {NodeIndex{0}, NodeIndex{1}}) {
    rte_mbuf* packet = make_packet(pool_.get(), {1, 2, 3});
    ASSERT_EQ(end(from).tx_burst(&packet, 1, 0), 1);
  }
  EXPECT_EQ(end(1).rx_burst(packets_.data(), 64, 10), 0);
  EXPECT_EQ(end(1).incoming().fault_counters()->lost.value(), 1u);
  ASSERT_EQ(end(0).rx_burst(packets_.data(), 64, 10), 1);
  rte_pktmbuf_free(packets_[0]);
}

}  // namespace
}  // namespace rockhopper::stack::sim
