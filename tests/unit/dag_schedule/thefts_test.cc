// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What becomes of the entries that an attempt to steal has found.
#include "apps/services/dag/schedule/thefts.h"

#include <cstddef>
#include <initializer_list>
#include <optional>

#include <gtest/gtest.h>

namespace rockhopper::dag {
namespace {

class TheftsTest : public ::testing::Test {
 protected:
  /// All `entries` are claimed, with that fate each, in that order.
  Thefts::Settled settle(std::initializer_list<Fate> fates) {
    thefts_.begin(0, fates.size());
    for (std::size_t i = 0; i < fates.size(); ++i) {
      thefts_.on_claim(0);
    }
    EXPECT_FALSE(thefts_.on_all_claimed(0));
    std::optional<Thefts::Settled> settled;
    unsigned number = 0;
    for (const Fate fate : fates) {
      EXPECT_FALSE(settled) << "known before all were decided";
      settled = thefts_.decide(0, number++, fate);
    }
    EXPECT_TRUE(settled);
    return settled.value_or(Thefts::Settled{});
  }

  Thefts thefts_{2};
};

// DG-38: the victim's top passes over an entry only when all before it are gone too.
TEST_F(TheftsTest, WhatIsGoneCountsFromTheOldestEntryOn) {
  EXPECT_EQ(settle({Fate::won, Fate::gone, Fate::won}).gone, 3u);
  EXPECT_EQ(settle({Fate::gone, Fate::left, Fate::won}).gone, 1u);
  EXPECT_EQ(settle({Fate::left, Fate::won, Fate::won}).gone, 0u);
}

TEST_F(TheftsTest, OneNodeMakesItASuccess) {
  EXPECT_TRUE(settle({Fate::left, Fate::gone, Fate::won}).successful);
  EXPECT_FALSE(settle({Fate::gone, Fate::gone}).successful);
}

TEST_F(TheftsTest, AnEntryThatIsNotClaimedIsNotGone) {
  thefts_.begin(0, 3);
  thefts_.on_claim(0);
  thefts_.on_claim(0);
  EXPECT_FALSE(thefts_.on_all_claimed(0));
  EXPECT_FALSE(thefts_.decide(0, 2, Fate::won));
  const auto settled = thefts_.decide(0, 0, Fate::gone);
  ASSERT_TRUE(settled);
  EXPECT_EQ(settled->gone, 1u) << "entry 1 may be ready still";
  EXPECT_TRUE(settled->successful);
}

// A claim may be decided while others are still being posted.
TEST_F(TheftsTest, NothingIsKnownBeforeAllHaveBeenClaimed) {
  thefts_.begin(1, 2);
  thefts_.on_claim(1);
  EXPECT_FALSE(thefts_.decide(1, 0, Fate::won));
  thefts_.on_claim(1);
  EXPECT_FALSE(thefts_.decide(1, 1, Fate::left));
  const auto settled = thefts_.on_all_claimed(1);
  ASSERT_TRUE(settled);
  EXPECT_EQ(settled->gone, 1u);
}

TEST_F(TheftsTest, AnAttemptBeginsAnew) {
  EXPECT_EQ(settle({Fate::won, Fate::won}).gone, 2u);
  thefts_.begin(0, 2);
  const auto settled = thefts_.on_all_claimed(0);
  ASSERT_TRUE(settled);
  EXPECT_EQ(settled->gone, 0u);
  EXPECT_FALSE(settled->successful);
}

TEST_F(TheftsTest, AttemptsAreIndependent) {
  thefts_.begin(0, 1);
  thefts_.begin(1, 1);
  thefts_.on_claim(0);
  thefts_.on_claim(1);
  EXPECT_FALSE(thefts_.on_all_claimed(0));
  EXPECT_FALSE(thefts_.on_all_claimed(1));
  EXPECT_EQ(thefts_.decide(1, 0, Fate::left)->gone, 0u);
  EXPECT_EQ(thefts_.decide(0, 0, Fate::gone)->gone, 1u);
}

}  // namespace
}  // namespace rockhopper::dag
