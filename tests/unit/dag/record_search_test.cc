// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Which entries are READ to find a record (DG-6 to DG-9).
#include "apps/services/dag/record_search.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace rockhopper::dag {
namespace {

constexpr std::size_t kRoom = 4096;

Entry entry_of(std::uint64_t incarnation, std::uint32_t length = 512) {
  return {.incarnation = incarnation, .address = incarnation * 4096, .length = length};
}

class RecordSearchTest : public ::testing::Test {
 protected:
  using Reads = std::vector<RecordSearch::Read>;

  void look_up(const std::vector<Entry>& entries) {
    EXPECT_TRUE(search_.look_up([&](std::span<Entry> room) {
      std::copy(entries.begin(), entries.end(), room.begin());
      return entries.size();
    }));
  }
  Reads next(bool heads = false, std::size_t room = kRoom) {
    Reads reads;
    search_.next_batch(room, heads, [&](const RecordSearch::Read& read) { reads.push_back(read); });
    return reads;
  }

  RecordSearch search_;
};

TEST_F(RecordSearchTest, NothingLeadsThere) {
  EXPECT_FALSE(search_.look_up([](std::span<Entry>) { return 0; }));
}

TEST_F(RecordSearchTest, DG7_CandidatesAreReadTogether) {
  look_up({entry_of(1), entry_of(2, 100), entry_of(3)});
  const Reads reads = next();
  ASSERT_EQ(reads.size(), 3u);
  EXPECT_TRUE(search_.is_exhausted());
  EXPECT_EQ(reads[0].offset, 0u);
  EXPECT_EQ(reads[1].offset, 512u);
  EXPECT_EQ(reads[2].offset, 512u + 104u) << "each begins at a multiple of 8";
  EXPECT_EQ(search_.of_batch(1), entry_of(2, 100));
}

TEST_F(RecordSearchTest, WhatHasNoRoomIsReadLater) {
  look_up({entry_of(1, 3000), entry_of(2, 3000), entry_of(3, 1000)});
  EXPECT_EQ(next().size(), 1u);
  EXPECT_FALSE(search_.is_exhausted());
  const Reads reads = next();
  ASSERT_EQ(reads.size(), 2u);
  EXPECT_EQ(*reads[0].entry, entry_of(2, 3000));
  EXPECT_EQ(search_.of_batch(0), entry_of(2, 3000));
  EXPECT_TRUE(search_.is_exhausted());
}

TEST_F(RecordSearchTest, HeadsAreEnoughForAChange) {
  look_up({entry_of(1, 3000), entry_of(2, 100)});
  const Reads reads = next(true);
  ASSERT_EQ(reads.size(), 2u);
  EXPECT_EQ(reads[0].length, kHeadBytes);
  EXPECT_EQ(reads[1].length, 100u);
}

// Another candidate may be the record: a long one must not be in the way.
TEST_F(RecordSearchTest, OfOneThatIsTooLongTheHeadIsRead) {
  look_up({entry_of(1, kRoom + 1), entry_of(2)});
  const Reads reads = next();
  ASSERT_EQ(reads.size(), 2u);
  EXPECT_EQ(reads[0].length, kHeadBytes);
  EXPECT_EQ(reads[1].length, 512u);
}

TEST_F(RecordSearchTest, AHitIsCountedOnce) {
  EXPECT_TRUE(search_.set_found(entry_of(1)));
  EXPECT_EQ(search_.entry(), entry_of(1));
  EXPECT_FALSE(search_.set_found(entry_of(1)));
  search_.reset();
  EXPECT_EQ(search_.on_asked(), 1);
  EXPECT_EQ(search_.on_asked(), 2);
  EXPECT_FALSE(search_.set_found(entry_of(1))) << "the server has led there";
}

TEST_F(RecordSearchTest, ATornRecordIsReadAgain) {
  look_up({entry_of(1), entry_of(2), entry_of(3)});
  (void)next();
  search_.set_torn(entry_of(2));
  EXPECT_EQ(search_.on_torn(), 1);
  const Reads reads = next();
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(*reads[0].entry, entry_of(2));
  EXPECT_TRUE(search_.is_exhausted());
  EXPECT_EQ(search_.on_torn(), 2);
}

TEST_F(RecordSearchTest, TheNextOperationBeginsAnew) {
  look_up({entry_of(1)});
  (void)next();
  (void)search_.on_torn();
  search_.reset();
  search_.set_only(entry_of(5));
  EXPECT_EQ(next().size(), 1u);
  EXPECT_EQ(search_.of_batch(0), entry_of(5));
  EXPECT_EQ(search_.on_torn(), 1);
}

}  // namespace
}  // namespace rockhopper::dag
