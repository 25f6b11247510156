// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// How far collectives are: what may begin, and whose place is given up when.
#include "apps/services/ami/epochs.h"

#include <vector>

#include <gtest/gtest.h>

namespace rockhopper::ami::test {
namespace {

struct EpochsTest : ::testing::Test {
  void retire(std::uint32_t sequence) {
    epochs.retire(sequence, [this](std::uint32_t which) { freed.push_back(which); });
  }
  Epochs epochs{4};
  std::vector<std::uint32_t> freed;
};

TEST_F(EpochsTest, AWindowBehindTheLastSyncIsFull) {
  for (unsigned i = 0; i < 4; ++i) {
    EXPECT_FALSE(epochs.is_full());
    EXPECT_EQ(epochs.next(), i);
    epochs.begin_next();
  }
  EXPECT_TRUE(epochs.is_full());
  retire(0);
  retire(1);
  EXPECT_TRUE(epochs.is_full()) << "others may not have retired them";
  ASSERT_TRUE(epochs.is_to_sync());
  epochs.on_synced();
  EXPECT_FALSE(epochs.is_to_sync());
  EXPECT_FALSE(epochs.is_full());
}

TEST_F(EpochsTest, AnEpochGivesItsPlacesUpWhenAllOfItAreRetired) {
  retire(1);
  EXPECT_TRUE(freed.empty());
  EXPECT_EQ(epochs.first(), 0u);
  retire(0);
  EXPECT_EQ(freed, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(epochs.first(), 2u);
}

TEST_F(EpochsTest, EpochsGiveTheirPlacesUpInOrder) {
  retire(2);
  retire(3);
  EXPECT_TRUE(freed.empty());
  EXPECT_FALSE(epochs.is_to_sync());
  retire(0);
  retire(1);
  EXPECT_EQ(freed, (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(epochs.synced(), 0u);
  epochs.on_synced();
  EXPECT_TRUE(epochs.is_to_sync()) << "the second one";
}

}  // namespace
}  // namespace rockhopper::ami::test
