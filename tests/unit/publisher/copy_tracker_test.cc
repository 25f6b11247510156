// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What a reader makes of copies that come besides (PB-13 to PB-17).
#include "apps/services/publisher/copy_tracker.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace rockhopper::publisher::copy_tracker_test {
namespace {

constexpr std::uint64_t kRing = 1 << 16;

/// Message n is at position 64 n.
class CopyTrackerTest : public ::testing::Test {
 protected:
  using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

  CopyTrackerTest() {
    cursor_.set_ring(kRing);
    stand_at(10);
    tracker_.expect(8, 64);
  }
  void stand_at(std::uint64_t sequence) {
    cursor_.advance({.position = 64 * (sequence - 1), .sequence = sequence - 1, .size = 64});
  }
  /// Returns true if a gap was not known.
  bool hold(std::uint64_t sequence) {
    std::vector<std::byte> bytes(64);
    emit_record(bytes.data(), {.position = 64 * sequence, .sequence = sequence, .epoch = 1}, {});
    const auto parsed = Record::parse_copy(bytes, 1, 16);
    EXPECT_EQ(parsed.status, RecordStatus::valid);
    return tracker_.hold(parsed.record, bytes);
  }
  /// The numbers of those whose turn it is.
  std::vector<std::uint64_t> take_next() {
    std::vector<std::uint64_t> taken;
    tracker_.take_next(cursor_, [&](const Record& copy) {
      taken.push_back(copy.sequence);
      cursor_.advance(copy);
    });
    return taken;
  }
  /// What is to be READ, as numbers of messages; with `pieces` at most.
  Ranges gaps(std::size_t pieces = 100) const {
    Ranges ranges;
    tracker_.for_each_gap(
        cursor_.position(),
        [&](std::uint64_t begin, std::uint64_t end) { ranges.emplace_back(begin / 64, end / 64); },
        [&] { return ranges.size() + 1 >= pieces; });
    return ranges;
  }

  LogCursor cursor_;
  CopyTracker tracker_;
};

using Numbers = std::vector<std::uint64_t>;

TEST_F(CopyTrackerTest, HoldsWhatComesBeforeItsTurn) {
  EXPECT_TRUE(hold(12)) << "11 is missing";
  EXPECT_FALSE(hold(13)) << "nothing between them is";
  EXPECT_TRUE(hold(15));
  EXPECT_TRUE(tracker_.is_gap(cursor_.position()));
  EXPECT_EQ(take_next(), Numbers{});
  stand_at(12);
  EXPECT_EQ(take_next(), (Numbers{12, 13}));
  EXPECT_EQ(cursor_.position(), 64u * 14);
  stand_at(15);
  EXPECT_EQ(take_next(), Numbers{15});
  EXPECT_TRUE(tracker_.empty());
  EXPECT_FALSE(tracker_.is_gap(cursor_.position()));
}

TEST_F(CopyTrackerTest, WhatHasBeenReadIsPassedOver) {
  (void)hold(12);
  stand_at(14);
  EXPECT_EQ(take_next(), Numbers{});
  EXPECT_TRUE(tracker_.empty());
}

// PB-14: a copy that contradicts what was READ meanwhile was forged.
TEST_F(CopyTrackerTest, WhatCannotBeAnyMoreIsDropped) {
  (void)hold(12);
  cursor_.advance({.position = 64 * 10, .sequence = 10, .size = 128});
  EXPECT_EQ(take_next(), Numbers{}) << "11 is where 12 was said to be";
  EXPECT_TRUE(tracker_.empty());
  EXPECT_EQ(tracker_.counters().invalid_sequence.value(), 1u);
}

TEST_F(CopyTrackerTest, WhatHasNoRoomIsToBeRead) {
  for (std::uint64_t sequence = 12; sequence < 20; ++sequence) {
    (void)hold(sequence);
  }
  EXPECT_TRUE(hold(20));
  EXPECT_EQ(tracker_.counters().dropped.value(), 1u);
  stand_at(20);
  (void)take_next();
  EXPECT_TRUE(tracker_.is_gap(cursor_.position())) << "how far is not known";
  tracker_.begin_round(cursor_.position());
  EXPECT_FALSE(tracker_.is_gap(cursor_.position()));
  tracker_.end_round(64 * 22, true);
  EXPECT_TRUE(tracker_.is_gap(64 * 21));
  EXPECT_FALSE(tracker_.is_gap(64 * 22));
}

TEST_F(CopyTrackerTest, GapsNearEachOtherAreReadInOnePiece) {
  (void)hold(12);
  (void)hold(14);
  EXPECT_EQ(gaps(), (Ranges{{10, 14}}));
  (void)hold(64);
  EXPECT_EQ(gaps(), (Ranges{{10, 64}})) << "what is held between is short";
}

TEST_F(CopyTrackerTest, GapsFarFromEachOtherAreReadAlone) {
  tracker_.expect(64, 64);
  (void)hold(12);
  for (std::uint64_t sequence = 13; sequence < 40; ++sequence) {
    (void)hold(sequence);
  }
  (void)hold(42);
  EXPECT_EQ(gaps(), (Ranges{{10, 12}, {40, 42}}));
  EXPECT_EQ(gaps(1), (Ranges{{10, 42}})) << "what is too many is one piece";
}

TEST_F(CopyTrackerTest, WhatCannotBeReadAnyMoreIsTakenAsItIs) {
  (void)hold(12);
  (void)hold(14);
  (void)hold(20);
  Numbers taken;
  tracker_.take_before(64 * 15, cursor_, [&](const Record& copy) {
    taken.push_back(copy.sequence);
    cursor_.advance(copy);
  });
  EXPECT_EQ(taken, (Numbers{12, 14}));
  EXPECT_EQ(tracker_.front().sequence, 20u);
}

// PB-16: nobody can publish what the publisher has not.
TEST_F(CopyTrackerTest, CopiesBeyondTheTailAreDropped) {
  (void)hold(12);
  (void)hold(30);
  tracker_.begin_round(cursor_.position());
  (void)hold(31);
  tracker_.end_round(64 * 20, true);
  EXPECT_EQ(tracker_.counters().beyond_tail.value(), 1u);
  EXPECT_EQ(tracker_.last_hole(), 64u * 31) << "that one came since the round began";
}

TEST_F(CopyTrackerTest, CopiesComeAsLongAsTheyBringWhatIsNew) {
  EXPECT_FALSE(tracker_.do_come());
  tracker_.on_good();
  EXPECT_TRUE(tracker_.do_come());
  tracker_.begin_round(cursor_.position());
  tracker_.end_round(64 * 20, false);
  EXPECT_TRUE(tracker_.do_come()) << "there was nothing new";
  tracker_.begin_round(cursor_.position());
  tracker_.on_good();
  tracker_.end_round(64 * 20, true);
  EXPECT_TRUE(tracker_.do_come());
  tracker_.begin_round(cursor_.position());
  tracker_.end_round(64 * 20, true);
  EXPECT_FALSE(tracker_.do_come()) << "something was, and no copy came";
}

TEST_F(CopyTrackerTest, ARoundForWhatIsMissingSaysNothingOfThat) {
  tracker_.on_good();
  (void)hold(12);
  tracker_.begin_round(cursor_.position());
  tracker_.end_round(64 * 20, true);
  EXPECT_TRUE(tracker_.do_come());
}

TEST_F(CopyTrackerTest, AMessageThatHadNoCopyIsRepaired) {
  (void)hold(12);
  tracker_.on_read({.position = 64 * 10, .sequence = 10});
  EXPECT_EQ(tracker_.counters().repaired.value(), 0u) << "no copies come";
  tracker_.on_good();
  tracker_.on_read({.position = 64 * 11, .sequence = 11});
  EXPECT_EQ(tracker_.counters().repaired.value(), 1u);
  tracker_.on_read({.position = 64 * 12, .sequence = 12});
  EXPECT_EQ(tracker_.counters().repaired.value(), 1u);
}

TEST_F(CopyTrackerTest, NothingIsExpectedAnyMore) {
  (void)hold(12);
  tracker_.on_good();
  tracker_.await(true);
  tracker_.expect(0, 0);
  EXPECT_FALSE(tracker_.is_expecting());
  EXPECT_TRUE(tracker_.empty());
  EXPECT_FALSE(tracker_.do_come());
  EXPECT_FALSE(tracker_.are_awaited());
  EXPECT_FALSE(tracker_.is_gap(cursor_.position()));
}

}  // namespace
}  // namespace rockhopper::publisher::copy_tracker_test
