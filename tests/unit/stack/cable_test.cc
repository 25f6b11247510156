// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/cable.h"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stack/mbuf_pool.h"
#include "tests/support/packets.h"

namespace rockhopper::stack {
namespace {

using test::Bytes;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CableTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pool = MbufPool::create({.size = 63, .cache = 0});
    ASSERT_TRUE(pool.has_value());
    pool_ = std::move(*pool);
  }
  void TearDown() override { EXPECT_EQ(pool_.in_use(), 0u) << "the sender's mbufs come back"; }

  /// How many of the frames the end took; the others are freed.
  std::uint16_t send(Link& end, const std::vector<Bytes>& frames) {
    std::vector<rte_mbuf*> packets;
    for (const Bytes& frame : frames) {
      packets.push_back(test::make_packet(pool_.get(), frame));
      packets.back()->ol_flags |= RTE_MBUF_F_TX_IP_CKSUM;
    }
    const auto count = static_cast<std::uint16_t>(packets.size());
    const std::uint16_t taken = end.tx_burst(packets.data(), count, 0);
    rte_pktmbuf_free_bulk(packets.data() + taken, count - taken);
    return taken;
  }
  static std::vector<Bytes> received(Link& end) {
    std::array<rte_mbuf*, 8> packets{};
    const std::uint16_t count = end.rx_burst(packets.data(), packets.size(), 0);
    std::vector<Bytes> frames;
    for (std::uint16_t i = 0; i < count; ++i) {
      EXPECT_EQ(packets[i]->ol_flags, 0u) << "requests to the sender's device";
      frames.push_back(test::bytes_of(packets[i]));
      rte_pktmbuf_free(packets[i]);
    }
    return frames;
  }

  MbufPool pool_;
};

TEST_F(CableTest, CarriesEachWayInOrder) {
  const auto cable = std::move(*Cable::create());
  EXPECT_EQ(send(cable->end(0), {Bytes(60, 1), Bytes(1500, 2)}), 2);
  EXPECT_EQ(send(cable->end(1), {Bytes(60, 3)}), 1);
  EXPECT_THAT(received(cable->end(1)), ElementsAre(Bytes(60, 1), Bytes(1500, 2)));
  EXPECT_THAT(received(cable->end(0)), ElementsAre(Bytes(60, 3)));
  EXPECT_THAT(received(cable->end(0)), IsEmpty());
}

TEST_F(CableTest, HandsBackWhatItHasNoRoomFor) {
  const auto cable = std::move(*Cable::create({.mtu = 1500, .packets = 3}));
  const std::vector<Bytes> frames(5, Bytes(60));
  EXPECT_EQ(send(cable->end(0), frames), 3);
  EXPECT_EQ(send(cable->end(0), frames), 0);
  EXPECT_EQ(received(cable->end(1)).size(), 3u);
  EXPECT_EQ(send(cable->end(0), frames), 3);
}

TEST_F(CableTest, EndsHaveAddressesOfTheirOwnAndOneMtu) {
  const auto cable = std::move(*Cable::create({.mtu = 2000}));
  const rte_ether_addr first = cable->end(0).mac();
  const rte_ether_addr second = cable->end(1).mac();
  EXPECT_NE(rte_is_valid_assigned_ether_addr(&first), 0);
  EXPECT_NE(rte_is_local_admin_ether_addr(&second), 0);
  EXPECT_EQ(rte_is_same_ether_addr(&first, &second), 0);
  const auto other = std::move(*Cable::create());
  const rte_ether_addr another = other->end(0).mac();
  EXPECT_EQ(rte_is_same_ether_addr(&first, &another), 0) << "a switch may join several cables";
  EXPECT_EQ(cable->end(0).mtu(), 2000);
}

TEST_F(CableTest, RefusesWhatCannotBe) {
  EXPECT_EQ(Cable::create({.packets = 0}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(Cable::create({.packets = 65'537}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(Cable::create({.mtu = 10'000}).error().code, ErrorCode::invalid_argument);
}

TEST_F(CableTest, WhatIsUnderWayEndsWithIt) {
  auto cable = std::move(*Cable::create());
  EXPECT_EQ(send(cable->end(0), {Bytes(60)}), 1);
  cable.reset();
}

}  // namespace
}  // namespace rockhopper::stack
