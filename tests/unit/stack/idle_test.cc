// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/idle.h"

#include <gtest/gtest.h>

namespace rockhopper::stack {
namespace {

/// Turns without work until sleeps get long; 0 if they do not.
int turns_until_long_sleeps(Idler& idler) {
  for (int turns = 1; turns < 10'000; ++turns) {
    (void)idler.is_time(false);
    if (idler.longest_sleep_ns() == kLongIdleSleepNs) return turns;
  }
  return 0;
}

TEST(Idler, SleepsLongOnlyWhenNothingHasMovedForAWhile) {
  Idler idler(IdlePolicy::sleep);
  const int turns = turns_until_long_sleeps(idler);
  // Each of them, once it rests, is a sleep of 50 us at least.
  EXPECT_GT(turns, 100);
  EXPECT_FALSE(idler.is_time(true));
  EXPECT_EQ(idler.longest_sleep_ns(), kIdleSleepNs);
  EXPECT_EQ(turns_until_long_sleeps(idler), turns) << "from the packet on";
}

TEST(Idler, DoesNotRestAtOnceNorWhenItPolls) {
  Idler idler(IdlePolicy::yield);
  EXPECT_FALSE(idler.is_time(false));
  Idler polling(IdlePolicy::poll);
  for (int turn = 0; turn < 1000; ++turn) {
    EXPECT_FALSE(polling.is_time(false));
  }
}

}  // namespace
}  // namespace rockhopper::stack
