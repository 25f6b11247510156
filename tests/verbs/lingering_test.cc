// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// When a poll goes on looking for what a peer writes.
#include "apps/verbs/node/lingering.h"

#include <gtest/gtest.h>

namespace rockhopper::test {
namespace {

using verbs::Lingering;

constexpr std::uint64_t kSoonNs = 1'000;
constexpr std::uint64_t kLateNs = Lingering::kPromptNs + 1;

/// Polls until it is not wanted any more; how often.
unsigned polls(Lingering& lingering, std::uint64_t ns, bool found) {
  unsigned count = 0;
  for (; lingering.is_wanted() && count < 1000; ++count) {
    lingering.on_lingered(ns, found);
  }
  return count;
}

/// WRITEs that are found until it is wanted again.
unsigned misses(Lingering& lingering) {
  unsigned count = 0;
  while (!lingering.is_wanted() && count < 10'000) {
    lingering.on_missed();
    ++count;
  }
  return count;
}

TEST(LingeringTest, NobodyLingersWhoHasMissedNothing) { EXPECT_FALSE(Lingering().is_wanted()); }

TEST(LingeringTest, WhatPaysGoesOn) {
  Lingering lingering;
  lingering.on_missed();
  EXPECT_EQ(polls(lingering, kSoonNs, true), 1000u);
}

TEST(LingeringTest, WhatDoesNotPayEndsAndIsTriedEverMoreRarely) {
  for (const bool found : {false, true}) {  // in the end, or late
    Lingering lingering;
    unsigned last = 0;
    for (int round = 0; round < 20; ++round) {
      const unsigned taken = misses(lingering);
      EXPECT_GE(taken, last);
      last = taken;
      EXPECT_LE(polls(lingering, kLateNs, found), 4u);
    }
    EXPECT_EQ(last, 1024u);
  }
}

TEST(LingeringTest, WhatHasPaidIsTriedAgainAtOnce) {
  Lingering lingering;
  for (int round = 0; round < 20; ++round) {
    (void)misses(lingering);
    (void)polls(lingering, kLateNs, false);
  }
  (void)misses(lingering);
  lingering.on_lingered(kSoonNs, true);
  EXPECT_LE(polls(lingering, kLateNs, false), 16u);
  EXPECT_EQ(misses(lingering), 1u);
}

}  // namespace
}  // namespace rockhopper::test
