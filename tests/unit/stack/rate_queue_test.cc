// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The queue in front of a link of limited rate.
#include "stack/rate_queue.h"

#include <gtest/gtest.h>

namespace rockhopper::stack {
namespace {

constexpr std::uint64_t kBitsPerSecond = 8'000'000'000;  // a byte takes 1 ns

TEST(RateQueue, PacketsLeaveOneBehindTheOther) {
  RateQueue queue(kBitsPerSecond, 4);
  EXPECT_EQ(queue.pass(100, 1000), 1100u);
  EXPECT_EQ(queue.pass(50, 1000), 1150u);
  EXPECT_EQ(queue.pass(10, 1140), 1160u);
}

TEST(RateQueue, AnIdleLinkSendsAtOnce) {
  RateQueue queue(kBitsPerSecond, 4);
  EXPECT_EQ(queue.pass(100, 1000), 1100u);
  EXPECT_EQ(queue.pass(100, 5000), 5100u);
}

TEST(RateQueue, TakesNoMoreThanThereIsRoomForUntilOneHasLeft) {
  RateQueue queue(kBitsPerSecond, 2);
  EXPECT_TRUE(queue.pass(100, 0));
  EXPECT_TRUE(queue.pass(100, 0));
  EXPECT_FALSE(queue.pass(100, 99));
  EXPECT_EQ(queue.pass(100, 100), 300u) << "the one that was refused has taken no time";
  EXPECT_FALSE(queue.pass(100, 100));
  EXPECT_EQ(queue.pass(100, 300), 400u);
}

TEST(RateQueue, HasRoomForOneAtLeast) {
  RateQueue queue(kBitsPerSecond, 0);
  EXPECT_TRUE(queue.pass(100, 0));
  EXPECT_FALSE(queue.pass(100, 0));
}

}  // namespace
}  // namespace rockhopper::stack
