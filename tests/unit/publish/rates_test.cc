// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/rates.h"

#include <gtest/gtest.h>

namespace rockhopper::apps::publish::rates_test {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

TEST(Rates, AreOfTheTimeSinceTheLineBefore) {
  Rates rates(2);
  ASSERT_TRUE(rates.due(5 * kSecond));
  EXPECT_EQ(rates.line("a", 100, 1000), "");
  EXPECT_FALSE(rates.due(7 * kSecond - 1));
  ASSERT_TRUE(rates.due(9 * kSecond));
  EXPECT_EQ(rates.line("a", 500, 8'001'000), "a: 100 messages/s 2.000 MB/s, 500 messages");
  EXPECT_EQ(rates.line("b", 5, 5), "");
}

TEST(Rates, NeverComeWithoutAnInterval) {
  Rates rates(0);
  EXPECT_FALSE(rates.due(5 * kSecond));
}

}  // namespace
}  // namespace rockhopper::apps::publish::rates_test
