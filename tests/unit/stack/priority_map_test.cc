// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/priority_map.h"

#include <gtest/gtest.h>

namespace rockhopper::stack {
namespace {

TEST(PriorityMap, ClassSelectorsAreTheDefault) {
  const PriorityMap map;
  EXPECT_EQ(map.trust, Trust::pcp);
  for (unsigned dscp = 0; dscp < 64; ++dscp) {
    for (unsigned ecn = 0; ecn < 4; ++ecn) {
      EXPECT_EQ(map.of_traffic_class(static_cast<std::uint8_t>(dscp << 2 | ecn)), dscp / 8);
    }
  }
}

TEST(PriorityMap, EntriesAndRangesAreChanged) {
  PriorityMap map;
  ASSERT_TRUE(parse_dscp_priorities("26=6,0-7=1,63=0", map.of_dscp));
  for (unsigned dscp = 0; dscp < 64; ++dscp) {
    const unsigned expected = dscp == 26 ? 6 : dscp < 8 ? 1 : dscp == 63 ? 0 : dscp / 8;
    EXPECT_EQ(map.of_dscp[dscp], expected) << dscp;
  }
}

TEST(PriorityMap, WhatIsNoMapChangesNothing) {
  PriorityMap map;
  for (const char* text : {"", "26", "26=", "=3", "64=1", "26=8", "9-3=1", "1=1,", "1=1,,2=2",
                           "a=1", "1-=2", "-1=2", "26:3"}) {
    EXPECT_FALSE(parse_dscp_priorities(text, map.of_dscp)) << text;
    EXPECT_EQ(map.of_dscp, PriorityMap::class_selectors()) << text;
  }
}

TEST(PriorityMap, TrustHasTwoNames) {
  EXPECT_EQ(parse_trust("pcp").value(), Trust::pcp);
  EXPECT_EQ(parse_trust("dscp").value(), Trust::dscp);
  EXPECT_FALSE(parse_trust("both"));
}

}  // namespace
}  // namespace rockhopper::stack
