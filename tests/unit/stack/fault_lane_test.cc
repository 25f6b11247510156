// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/fault_lane.h"

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

}  // namespace
}  // namespace rockhopper::stack
