// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What a round READs of a ring (PB-23).
#include "apps/services/publisher/read_ranges.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace rockhopper::publisher {
namespace {

constexpr std::uint64_t kAny = 1 << 20;

class ReadRangesTest : public ::testing::Test {
 protected:
  ReadRangesTest() { ranges_.set_batch(1000); }
  ReadRanges ranges_;
};

TEST_F(ReadRangesTest, LieBehindEachOtherInTheBuffer) {
  EXPECT_TRUE(ranges_.empty());
  EXPECT_EQ(ranges_.add(5000, 5200, kAny).bytes, 200u);
  EXPECT_EQ(ranges_.add(6000, 6300, kAny).at, 200u);
  EXPECT_EQ(ranges_.bytes(), 500u);
  ASSERT_EQ(ranges_.all().size(), 2u);
  EXPECT_EQ(ranges_.all()[1].position, 6000u);
  EXPECT_EQ(ranges_.all()[1].end(), 6300u);
}

TEST_F(ReadRangesTest, TogetherAreABatchAtMost) {
  EXPECT_EQ(ranges_.add(0, 700, kAny).bytes, 700u);
  EXPECT_EQ(ranges_.add(2000, 3000, kAny).bytes, 300u);
  EXPECT_EQ(ranges_.add(4000, 5000, kAny).bytes, 0u);
  EXPECT_EQ(ranges_.all().size(), 2u);
}

TEST_F(ReadRangesTest, AreNotLongerThanThereIsRoom) {
  EXPECT_EQ(ranges_.add(0, 700, 64).bytes, 64u);
  EXPECT_EQ(ranges_.add(0, 700, 0).bytes, 0u);
}

TEST_F(ReadRangesTest, NothingIsNoRange) {
  EXPECT_EQ(ranges_.add(100, 100, kAny).bytes, 0u);
  EXPECT_EQ(ranges_.add(100, 50, kAny).bytes, 0u);
  EXPECT_TRUE(ranges_.empty());
}

TEST_F(ReadRangesTest, AreSoMany) {
  std::uint64_t position = 0;
  for (; !ranges_.is_nearly_full(); position += 10) {
    ASSERT_EQ(ranges_.add(position, position + 1, kAny).bytes, 1u);
  }
  EXPECT_EQ(ranges_.all().size(), ReadRanges::kMax - 1);
  EXPECT_EQ(ranges_.add(position, position + 1, kAny).bytes, 1u);
  EXPECT_EQ(ranges_.add(position + 10, position + 11, kAny).bytes, 0u);
}

TEST_F(ReadRangesTest, TheNextRoundBeginsAnew) {
  (void)ranges_.add(0, 900, kAny);
  ranges_.clear();
  EXPECT_TRUE(ranges_.empty());
  EXPECT_EQ(ranges_.bytes(), 0u);
  ranges_.set_batch(2000);
  EXPECT_EQ(ranges_.add(0, 5000, kAny).bytes, 2000u);
}

}  // namespace
}  // namespace rockhopper::publisher
