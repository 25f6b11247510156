// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/pattern.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace rockhopper::apps {
namespace {

TEST(Pattern, IsFoundAgainAndOnlyUnderItsOwnNumbers) {
  std::vector<std::byte> data(1000);
  fill_pattern(data, 7, 3);
  EXPECT_FALSE(find_pattern_mismatch(data, 7, 3));
  EXPECT_TRUE(find_pattern_mismatch(data, 8, 3));
  EXPECT_TRUE(find_pattern_mismatch(data, 7, 4));
}

TEST(Pattern, EachFlippedBitIsFoundAtItsPlace) {
  std::mt19937_64 random(test::seed());
  for (int round = 0; round < 1000; ++round) {
    std::vector<std::byte> data(1 + random() % 100);
    const std::uint64_t seed = random();
    fill_pattern(data, seed, 5);
    const std::size_t place = random() % data.size();
    data[place] ^= static_cast<std::byte>(1u << (random() % 8));
    EXPECT_EQ(find_pattern_mismatch(data, seed, 5), place);
  }
}

TEST(Pattern, PlacesDiffer) {
  std::vector<std::byte> data(1 << 16);
  fill_pattern(data, 1, 1);
  // Bytes of a place never pass for those of another, eight at a time.
  for (std::size_t shift : {8u, 64u, 1024u, 4096u}) {
    EXPECT_TRUE(find_pattern_mismatch(std::span(data).subspan(shift), 1, 1)) << shift;
  }
}

}  // namespace
}  // namespace rockhopper::apps
