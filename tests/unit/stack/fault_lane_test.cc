// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/fault_lane.h"

#include <initializer_list>

#include <gtest/gtest.h>

#include "stack/mbuf_pool.h"
#include "tests/support/packets.h"
#include "tests/support/seed.h"

namespace rockhopper::stack {
namespace {

using test::Bytes;

/// A frame after a lane that damages whatever it may.
Bytes damaged(const Bytes& frame) {
  auto pool = MbufPool::create({.size = 63, .cache = 0});
  EXPECT_TRUE(pool);
  FaultRates rates;
  rates.corrupt = 1;
  FaultLane lane(rates, test::seed(), 0, pool->get());
  lane.begin(0);
  lane.offer(test::make_packet(pool->get(), frame), 0);
  rte_mbuf* packet = nullptr;
  EXPECT_EQ(lane.take_due(&packet, 1, 0), 1u);
  Bytes bytes = test::bytes_of(packet);
  rte_pktmbuf_free(packet);
  return bytes;
}

Bytes frame_of(std::uint16_t type) {
  Bytes frame(60, 0x5a);
  frame[12] = static_cast<std::uint8_t>(type >> 8);
  frame[13] = static_cast<std::uint8_t>(type);
  return frame;
}

TEST(FaultLane, DamagesWhatHasAChecksumAndSparesArp) {
  for (const std::uint16_t type : {std::uint16_t{0x0800}, std::uint16_t{0x86dd}}) {
    EXPECT_NE(damaged(frame_of(type)), frame_of(type)) << type;
  }
  EXPECT_EQ(damaged(frame_of(0x0806)), frame_of(0x0806));
}

/// Late copies come within their time, wait in a bounded number, and hold nothing up.
TEST(FaultLane, CopiesAgainLaterAndTakesNoRoomForIt) {
  constexpr std::uint64_t kMostNs = 1'000'000;
  constexpr std::uint32_t kPackets = FaultLane::kLateCapacity + 100;
  auto pool = MbufPool::create({.size = 8191, .cache = 0});
  ASSERT_TRUE(pool);
  FaultRates rates;
  rates.late = 1;
  rates.late_max_ns = kMostNs;
  FaultLane lane(rates, test::seed(), 0, pool->get());
  lane.begin(0);
  const std::uint32_t room = lane.room();
  std::uint32_t at_once = 0;
  rte_mbuf* packet = nullptr;
  for (std::uint32_t i = 0; i < kPackets; ++i) {
    lane.offer(test::make_packet(pool->get(), frame_of(0x0800)), 0);
    for (; lane.take_due(&packet, 1, 0) == 1; ++at_once) {
      rte_pktmbuf_free(packet);
    }
  }
  EXPECT_GE(at_once, kPackets);
  EXPECT_EQ(lane.room(), room);
  EXPECT_EQ(lane.counters().late.value() + lane.counters().late_left_out.value(), kPackets);
  EXPECT_GE(lane.counters().late_left_out.value(), 1u);
  std::uint32_t later = 0;
  for (; lane.take_due(&packet, 1, kMostNs) == 1; ++later) {
    rte_pktmbuf_free(packet);
  }
  EXPECT_GT(later, FaultLane::kLateCapacity / 2);
  EXPECT_EQ(at_once + later, kPackets + lane.counters().late.value());
  EXPECT_EQ(lane.room(), room);
  EXPECT_EQ(pool->in_use(), 0u);
}

/// Drops are by the BTH's opcode, further by a byte behind its start, and so many.
TEST(FaultLane, DropsByOpcode) {
  auto pool = MbufPool::create({.size = 63, .cache = 0});
  ASSERT_TRUE(pool);
  FaultRates rates;
  rates.drop_opcodes = {{.first = 0x11, .last = 0x12, .match_offset = {}, .limit = 2},
                        {.first = 0x04, .last = 0x04, .match_offset = 12, .match_value = 7}};
  FaultLane lane(rates, test::seed(), 0, pool->get());
  lane.begin(0);
  const auto passes = [&](const Bytes& frame) {
    lane.offer(test::make_packet(pool->get(), frame), 0);
    rte_mbuf* packet = nullptr;
    const bool passed = lane.take_due(&packet, 1, 0) == 1;
    rte_pktmbuf_free(packet);
    return passed;
  };
  EXPECT_FALSE(passes(test::roce_frame(0x11, 1, {})));
  EXPECT_TRUE(passes(test::roce_frame(0x13, 2, {})));
  EXPECT_FALSE(passes(test::roce_frame(0x12, 3, {})));
  EXPECT_TRUE(passes(test::roce_frame(0x11, 4, {}))) << "two were to be dropped";
  EXPECT_FALSE(passes(test::roce_frame(0x04, 5, {7, 8})));
  EXPECT_TRUE(passes(test::roce_frame(0x04, 6, {8, 7})));
  EXPECT_TRUE(passes(frame_of(0x0800)));
  EXPECT_EQ(lane.counters().dropped_opcode.value(), 3u);
}

/// A single packet of a given number is dropped, counted among those that match.
TEST(FaultLane, DropsTheNthOfAnOpcode) {
  auto pool = MbufPool::create({.size = 63, .cache = 0});
  ASSERT_TRUE(pool);
  const auto config = parse_faults("tx.drop_opcode=0x06-0x08+2*1");
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_TRUE(config->rx.drop_opcodes.empty());
  FaultLane lane(config->tx, test::seed(), 0, pool->get());
  lane.begin(0);
  Bytes passed;
  for (const std::uint8_t opcode :
       std::initializer_list<std::uint8_t>{0x06, 0x11, 0x07, 0x07, 0x07, 0x08}) {
    lane.offer(test::make_packet(pool->get(), test::roce_frame(opcode, 1, {})), 0);
    rte_mbuf* packet = nullptr;
    passed.push_back(static_cast<std::uint8_t>(lane.take_due(&packet, 1, 0)));
    rte_pktmbuf_free(packet);
  }
  EXPECT_EQ(passed, (Bytes{1, 1, 1, 0, 1, 1}));
  EXPECT_EQ(lane.counters().dropped_opcode.value(), 1u);
}

TEST(FaultConfig, RefusesWhatIsNoNumberOfPacketsToSkip) {
  for (const char* text : {"drop_opcode=0x06+", "drop_opcode=0x06+x", "drop_opcode=0x06+1+2",
                           "drop_opcode=0x06+-1*1"}) {
    EXPECT_FALSE(parse_faults(text).has_value()) << text;
  }
  const auto all = parse_faults("drop_opcode=0xd8@16=3+4*5");
  ASSERT_TRUE(all.has_value()) << all.error().message;
  const OpcodeDrop& drop = all->rx.drop_opcodes.at(0);
  EXPECT_EQ(drop.match_offset, 16);
  EXPECT_EQ(drop.match_value, 3);
  EXPECT_EQ(drop.skip, 4u);
  EXPECT_EQ(drop.limit, 5u);
}

}  // namespace
}  // namespace rockhopper::stack
