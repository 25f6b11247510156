// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Where a reader of a log stands, and what can be next there (PB-15, PB-20).
#include "apps/services/publisher/log_cursor.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace rockhopper::publisher::log_cursor_test {
namespace {

constexpr std::uint64_t kRing = 4096;
constexpr std::uint64_t kRound = 10 * kRing;  ///< where a round of the ring begins

Record record(std::uint64_t position, std::uint64_t sequence, std::uint64_t size = 64) {
  return {.position = position, .sequence = sequence, .size = size};
}

class LogCursorTest : public ::testing::Test {
 protected:
  LogCursorTest() { cursor_.set_ring(kRing); }
  /// The last record that was read ended there, and had the number before.
  void stand_at(std::uint64_t position, std::uint64_t sequence) {
    cursor_.advance(record(position - 64, sequence - 1));
  }
  LogCursor cursor_;
};

TEST_F(LogCursorTest, KnowsNothingAtFirst) { EXPECT_FALSE(cursor_.is_known()); }

TEST_F(LogCursorTest, AtAPositionAnyNumberIsExpected) {
  cursor_.move_to(kRound);
  EXPECT_TRUE(cursor_.is_known());
  const ExpectedRecord expected = cursor_.expected(0x1'0000'0005, 100);
  EXPECT_EQ(expected.position, kRound);
  EXPECT_EQ(expected.epoch, 5u) << "records have the lower bits";
  EXPECT_TRUE(expected.any_sequence);
  EXPECT_EQ(expected.message_max, 100u);
}

TEST_F(LogCursorTest, BehindARecordTheNextNumberIsExpected) {
  cursor_.move_to(kRound);
  cursor_.advance(record(kRound, 7, 128));
  EXPECT_EQ(cursor_.position(), kRound + 128);
  EXPECT_FALSE(cursor_.expected(1, 100).any_sequence);
  EXPECT_EQ(cursor_.expected(1, 100).sequence, 8u);
}

TEST_F(LogCursorTest, PaddingHasTheNextMessagesNumber) {
  Record padding = record(kRound, 7, 128);
  padding.flags = Record::kFlagPad;
  cursor_.advance(padding);
  EXPECT_EQ(cursor_.expected(1, 100).sequence, 7u);
}

TEST_F(LogCursorTest, WhatIsTooShortForARecordIsPassed) {
  stand_at(kRound + kRing - 32, 5);
  EXPECT_EQ(cursor_.to_ring_end(), 32u);
  cursor_.pass(32);
  EXPECT_EQ(cursor_.position(), kRound + kRing);
  EXPECT_EQ(cursor_.to_ring_end(), kRing);
  EXPECT_EQ(cursor_.expected(1, 100).sequence, 5u);
}

TEST_F(LogCursorTest, PB15_TheNextCopyIsHereAndHasTheNextNumber) {
  stand_at(kRound, 5);
  EXPECT_TRUE(cursor_.is_next(record(kRound, 5)));
  EXPECT_FALSE(cursor_.is_next(record(kRound, 6)));
  EXPECT_FALSE(cursor_.is_next(record(kRound + 64, 5)));
}

TEST_F(LogCursorTest, PB15_OrWhereTheRingBeginsIfItHadNoRoom) {
  stand_at(kRound + kRing - 64, 5);
  EXPECT_TRUE(cursor_.is_next(record(kRound + kRing, 5, 128)));
  EXPECT_FALSE(cursor_.is_next(record(kRound + kRing, 5, 64))) << "it had room";
  EXPECT_FALSE(cursor_.is_next(record(kRound + kRing - 64, 5, 128)));
}

TEST_F(LogCursorTest, AtAPositionTheCopyThereIsNext) {
  cursor_.move_to(kRound);
  EXPECT_TRUE(cursor_.is_next(record(kRound, 99)));
  EXPECT_FALSE(cursor_.is_next(record(kRound + 64, 99)));
}

// PB-14: a forged copy must not have us wait for what can never be.
TEST_F(LogCursorTest, ACopyAheadNeedsRoomForAllBetween) {
  stand_at(kRound, 5);
  EXPECT_TRUE(cursor_.is_plausible(record(kRound + 128, 7)));
  EXPECT_TRUE(cursor_.is_plausible(record(kRound + 256, 6))) << "one long message";
  EXPECT_FALSE(cursor_.is_plausible(record(kRound + 64, 7))) << "two of them need 128 bytes";
  EXPECT_FALSE(cursor_.is_plausible(record(kRound + 128, 4))) << "that one has been";
  EXPECT_FALSE(cursor_.is_plausible(record(kRound + 128, 5))) << "the next one is here";
}

TEST_F(LogCursorTest, ACopyEndsBeforeTheRingDoes) {
  cursor_.move_to(kRound);
  EXPECT_TRUE(cursor_.is_plausible(record(kRound + kRing - 64, 9, 64)));
  EXPECT_FALSE(cursor_.is_plausible(record(kRound + kRing - 64, 9, 128)));
}

}  // namespace
}  // namespace rockhopper::publisher::log_cursor_test
