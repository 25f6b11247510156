// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// When a worker without work looks for some.
#include "apps/services/dag/schedule/search_pace.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace rockhopper::dag {
namespace {

constexpr std::uint64_t kNow = 1'000'000;

TEST(SearchPace, LooksAtOnceThenAtIntervals) {
  SearchPace pace(100, 1000);
  EXPECT_TRUE(pace.is_due(0));
  pace.on_look(4, kNow);
  EXPECT_EQ(pace.next_ns(), kNow + 100);
  EXPECT_FALSE(pace.is_due(kNow + 99));
  EXPECT_TRUE(pace.is_due(kNow + 100));
}

// All others are asked once before it gets slower.
TEST(SearchPace, DoublesAfterARoundInVain) {
  SearchPace pace(100, 350);
  for (const std::uint64_t interval : {100, 100, 200, 200, 200, 350, 350, 350, 350}) {
    pace.on_look(2, kNow);
    EXPECT_EQ(pace.next_ns(), kNow + interval);
  }
}

TEST(SearchPace, WithoutOthersEachLookIsARound) {
  SearchPace pace(100, 350);
  for (const std::uint64_t interval : {200, 350, 350}) {
    pace.on_look(0, kNow);
    EXPECT_EQ(pace.next_ns(), kNow + interval);
  }
}

TEST(SearchPace, IsFastAgainOnceSomethingWasFound) {
  SearchPace pace(100, 800);
  for (int i = 0; i < 10; ++i) {
    pace.on_look(0, kNow);
  }
  EXPECT_EQ(pace.next_ns(), kNow + 800);
  pace.on_found(kNow + 5);
  EXPECT_TRUE(pace.is_due(kNow + 5));
  pace.on_look(1, kNow + 5);
  EXPECT_EQ(pace.next_ns(), kNow + 5 + 100);
}

}  // namespace
}  // namespace rockhopper::dag
