// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rockhopper::apps {
namespace {

TEST(Sizes, HaveBinaryUnits) {
  EXPECT_EQ(parse_size("0").value(), 0u);
  EXPECT_EQ(parse_size("64").value(), 64u);
  EXPECT_EQ(parse_size("4k").value(), 4096u);
  EXPECT_EQ(parse_size("8M").value(), 8u << 20);
  EXPECT_EQ(parse_size("1G").value(), 1u << 30);
  EXPECT_EQ(parse_size("64KiB").value(), 65536u);
  EXPECT_EQ(parse_size("2GiB").value(), 1u << 31) << "the longest message of InfiniBand";
  EXPECT_EQ(parse_size("1e6").value(), 1'000'000u);
  for (const char* text :
       {"", "k", "-1", "4x", "1e10", "3GiB", "4kk", "3G", "2147483649", "99999999999999999999"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

TEST(Sizes, ListsHaveALimitForEach) {
  EXPECT_THAT(parse_sizes("1,2k,16M", 16u << 20).value(),
              testing::ElementsAre(1u, 2048u, 16u << 20));
  for (const char* list : {"1,,2", "17M", "1,x", ""}) {
    EXPECT_FALSE(parse_sizes(list, 16u << 20)) << list;
  }
}

}  // namespace
}  // namespace rockhopper::apps
