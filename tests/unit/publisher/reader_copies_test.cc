// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// A reader of a log that gets copies of its messages besides (PB-13 to PB-17), in any order and
// from anybody.
#include <map>

#include "tests/sim/rng.h"
#include "tests/unit/publisher/copies_rig.h"

namespace rockhopper::publisher::reader_copies_test {
namespace {

using test::CopiesRig;
using Bytes = CopiesRig::Bytes;

std::uint64_t begin_of(const Bytes& copy) { return load_le<std::uint64_t>(copy.data()); }
std::uint64_t end_of(const Bytes& copy) { return begin_of(copy) + copy.size(); }

/// A reader that has begun.
struct Copies : ::testing::Test {
  void SetUp() override { ASSERT_TRUE(rig.round()); }
  void TearDown() override { rig.expect_good(); }
  const CopyCounters& counters() const { return rig.reader.copy_counters(); }
  CopiesRig rig;
};

// PB-13: what comes in order is delivered at once, around the ring's end too, and the store is
// looked at with each heart-beat only.
TEST_F(Copies, InOrderNothingIsRead) {
  rig.publish();
  rig.hand_on(0);
  rig.run_for(CopiesRig::kHeartbeatNs);
  const std::uint64_t before = rig.reader.counters().read_bytes.value();
  const std::uint64_t rounds = rig.rounds;
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    rig.publish();
    rig.hand_on(i);
    ASSERT_EQ(rig.judge.messages, i + 1);
    rig.run_for(CopiesRig::kHeartbeatNs / 100);
  }
  EXPECT_GT(rig.store->counters().evicted.value(), 0u) << "the ring has not been around";
  EXPECT_EQ(rig.reader.counters().read_bytes.value(), before);
  EXPECT_LE(rig.rounds - rounds, 11u);
  EXPECT_EQ(counters().gaps.value(), 0u);
  EXPECT_EQ(counters().taken.value(), 1001u);
}

// PB-14, PB-15, PB-16, PB-23: what lies between two copies is READ, exactly, in one round.
TEST_F(Copies, WhatIsMissingIsRead) {
  rig.publish(8);
  rig.hand_on(0, 1);
  rig.hand_on(5, 7);
  EXPECT_EQ(rig.judge.messages, 2u);
  ASSERT_TRUE(rig.begin()) << "not at once";
  ASSERT_EQ(rig.ranges.size(), 2u);
  EXPECT_EQ(rig.ranges[0].first, sizeof(ControlBlock) + end_of(rig.copies[1]));
  EXPECT_EQ(rig.ranges[0].second, begin_of(rig.copies[5]) - end_of(rig.copies[1]));
  rig.end();
  EXPECT_EQ(rig.judge.messages, 8u);
  EXPECT_TRUE(rig.judge.lost.empty());
  EXPECT_EQ(counters().gaps.value(), 1u);
  EXPECT_EQ(counters().repaired.value(), 3u);
  EXPECT_EQ(counters().taken.value(), 5u);
}

// PB-23: around the ring's end there are two READs and the control block, and still one round.
TEST_F(Copies, WhatIsMissingAroundTheEndOfTheRing) {
  std::uint64_t sequence = 0;
  do {
    rig.publish();
    rig.hand_on(sequence);
  } while (end_of(rig.copies[sequence++]) < rig.store->ring_bytes() - 600);
  const std::uint64_t told = rig.judge.messages;
  const std::uint64_t last = sequence + 12;
  rig.publish(13);
  ASSERT_GT(begin_of(rig.copies[last]), rig.store->ring_bytes());
  rig.hand_on(last);
  EXPECT_EQ(rig.judge.messages, told);
  ASSERT_TRUE(rig.begin());
  EXPECT_EQ(rig.ranges.size(), 3u);
  rig.end();
  EXPECT_EQ(rig.judge.messages, last + 1);
}

// PB-17: while one round is on its way newer copies come and are kept, and with it they are
// delivered. What is found missing meanwhile takes one more round: two round trips at most.
TEST_F(Copies, NewerOnesComeDuringRepair) {
  rig.publish(4);
  rig.hand_on(0);
  rig.hand_on(2, 3);
  ASSERT_TRUE(rig.begin());
  rig.publish(6);
  rig.hand_on(4, 6);
  rig.hand_on(8, 9);
  EXPECT_EQ(rig.judge.messages, 1u);
  rig.end();
  EXPECT_EQ(rig.judge.messages, 7u);
  ASSERT_TRUE(rig.round());
  EXPECT_EQ(rig.judge.messages, 10u);
  EXPECT_EQ(counters().repaired.value(), 2u);
  EXPECT_EQ(counters().gaps.value(), 2u);
}

// PB-14, PB-23: several gaps are repaired by one round, as losses may be many in a round trip.
TEST_F(Copies, ManyGapsTakeOneRound) {
  rig.publish(40);
  for (std::uint64_t i = 0; i < 40; i += 3) {
    rig.hand_on(i);
  }
  ASSERT_TRUE(rig.round());
  EXPECT_EQ(rig.judge.messages, 40u);
  EXPECT_EQ(counters().repaired.value(), 26u);
}

// PB-14: of what has come between gaps that are far from each other nothing is READ again.
TEST_F(Copies, GapsFarFromEachOtherAreReadEachByItself) {
  CopiesRig wide({.longest = 4000, .ring = 1 << 20, .held = 200});
  ASSERT_TRUE(wide.round());
  sim::Rng rng(wide.seed);
  wide.publish(150);
  std::vector<std::pair<std::uint64_t, std::size_t>> expected;
  std::uint64_t missing = rng.between(0, 9);
  std::uint64_t near = 0;
  for (std::uint64_t i = 0; i < 150; ++i) {
    const bool last = expected.size() == 6;
    if (i < missing || last) {
      wide.hand_on(i);
      near += wide.copies[i].size();
    } else if (near <= 2048 && !expected.empty()) {
      ++missing;
      wide.hand_on(i);
      near += wide.copies[i].size();
    } else {
      expected.emplace_back(sizeof(ControlBlock) + begin_of(wide.copies[i]), wide.copies[i].size());
      missing = i + 1;
      near = 0;
    }
  }
  ASSERT_EQ(expected.size(), 6u);
  ASSERT_TRUE(wide.begin());
  expected.emplace_back(0, sizeof(ControlBlock));
  EXPECT_EQ(wide.ranges, expected);
  wide.end();
  EXPECT_EQ(wide.judge.messages, 150u);
  EXPECT_EQ(wide.reader.copy_counters().repaired.value(), 6u);
  EXPECT_EQ(wide.reader.copy_counters().taken.value(), 144u);
  wide.expect_good();
}

// PB-23: there may be more gaps than READs in a round, and all are repaired by it.
TEST_F(Copies, MoreGapsThanReads) {
  CopiesRig wide({.longest = 4000, .ring = 1 << 20, .held = 400});
  ASSERT_TRUE(wide.round());
  wide.publish(400);
  for (std::uint64_t i = 0; i < 400; ++i) {
    if (i % 9 != 4) wide.hand_on(i);
  }
  ASSERT_TRUE(wide.begin());
  EXPECT_GT(wide.ranges.size(), 3u);
  wide.end();
  EXPECT_EQ(wide.judge.messages, 400u);
  EXPECT_EQ(wide.reader.copy_counters().repaired.value(), 44u);
  wide.expect_good();
}

// A copy that comes late is as good as a READ, before the round and during it.
TEST_F(Copies, ReorderedOnesAreDeliveredOnce) {
  rig.publish(3);
  rig.hand_on(1);
  rig.hand_on(0);
  EXPECT_EQ(rig.judge.messages, 2u);
  rig.publish(3);
  rig.hand_on(4, 5);
  ASSERT_TRUE(rig.begin());
  rig.hand_on(3);
  rig.hand_on(2);
  EXPECT_EQ(rig.judge.messages, 6u);
  rig.end();
  EXPECT_EQ(rig.judge.messages, 6u);
  EXPECT_EQ(counters().repaired.value(), 0u);
}

TEST_F(Copies, RepeatedOnesAreDropped) {
  rig.publish(5);
  rig.hand_on(0, 2);
  rig.hand_on(0, 2);
  rig.hand_on(4);
  rig.hand_on(4);
  EXPECT_EQ(rig.judge.messages, 3u);
  EXPECT_EQ(counters().duplicates.value(), 4u);
}

// What has no room is READ, and nothing is waited for.
TEST_F(Copies, WithoutRoomTheNewestAreRead) {
  CopiesRig small({.held = 4});
  ASSERT_TRUE(small.round());
  small.publish(30);
  small.hand_on(1, 29);
  EXPECT_EQ(small.reader.copy_counters().dropped.value(), 25u);
  const std::uint64_t began_ns = small.now_ns;
  for (int i = 0; i < 5; ++i) {
    small.round();
  }
  EXPECT_EQ(small.now_ns, began_ns);
  EXPECT_EQ(small.judge.messages, 30u);
  small.expect_good();
}

// The last ones may be lost: the next look at the store, with a heart-beat, finds them.
TEST_F(Copies, TheLastOnesAreFoundByLooking) {
  rig.publish(3);
  rig.hand_on(0);
  rig.run_for(2 * CopiesRig::kHeartbeatNs);
  EXPECT_EQ(rig.judge.messages, 3u);
}

// Where copies do not come any more, the store is looked at as often as without.
TEST_F(Copies, WithoutCopiesItPolls) {
  rig.publish(2);
  rig.hand_on(0);
  rig.run_for(2 * CopiesRig::kHeartbeatNs);
  for (std::uint64_t i = 3; i < 20; ++i) {
    rig.publish();
    rig.run_for(3 * CopiesRig::kPollNs);
    ASSERT_EQ(rig.judge.messages, i);
  }
}

// Messages that are too long for a datagram leave a gap like any other.
TEST_F(Copies, LongMessagesAreRead) {
  CopiesRig mixed({.copy_max = 256});
  ASSERT_TRUE(mixed.round());
  for (std::uint64_t i = 0; i < 200; ++i) {
    mixed.publish();
    mixed.hand_on(i);
    if (i % 7 == 0) mixed.round();
  }
  mixed.run_for(2 * CopiesRig::kHeartbeatNs);
  const auto empty = std::count_if(mixed.copies.begin(), mixed.copies.end(),
                                   [](const Bytes& copy) { return copy.empty(); });
  ASSERT_GT(empty, 0);
  EXPECT_EQ(mixed.judge.messages, 200u);
  EXPECT_GT(mixed.reader.copy_counters().repaired.value(), 0u);
  mixed.expect_good();
}

// PB-21: overtaken while it repairs, it delivers the copies that it has, and what it has not is
// lost, exactly.
TEST_F(Copies, OvertakenDuringRepair) {
  rig.publish(10);
  rig.hand_on(0, 1);
  rig.hand_on(4, 5);
  rig.hand_on(8);
  rig.publish(500);
  const std::uint64_t oldest = rig.store->oldest_sequence();
  ASSERT_GT(oldest, 20u);
  for (int i = 0; i < 4; ++i) {
    rig.round();
  }
  rig.run_for(2 * CopiesRig::kHeartbeatNs);
  ASSERT_TRUE(rig.all_told());
  using Interval = std::pair<std::uint64_t, std::uint64_t>;
  EXPECT_EQ(rig.judge.lost, (std::vector<Interval>{{2, 3}, {6, 7}, {9, oldest - 1}}));
}

// PB-20: any change of any byte of a copy is noticed.
TEST_F(Copies, DamagedOnesAreRefused) {
  sim::Rng rng(rig.seed);
  rig.publish(200);
  for (std::uint64_t i = 0; i < 200; ++i) {
    Bytes copy = rig.copies[i];
    const std::uint64_t kind = rng.between(0, 9);
    if (kind == 0) {
      copy.resize(rng.between(0, copy.size() - 1));
    } else if (kind == 1) {
      copy.resize(copy.size() + 32);
    } else {
      // All but the zeros before the end, which nothing depends on.
      const std::uint64_t length = load_le<std::uint32_t>(copy.data() + 20);
      std::uint64_t at = rng.between(0, Record::kHeaderSize + length + Record::kTrailerSize - 1);
      if (at >= Record::kHeaderSize + length) {
        at = copy.size() - Record::kTrailerSize + (at - Record::kHeaderSize - length);
      }
      copy[at] ^= static_cast<std::byte>(rng.between(1, 255));
    }
    rig.reader.on_copy(copy, rig.now_ns);
  }
  EXPECT_EQ(rig.judge.messages, 0u);
  EXPECT_EQ(counters().taken.value(), 0u);
  EXPECT_EQ(counters().held.value(), 0u);
  EXPECT_EQ(counters().received.value(), 200u);
}

/// A record with a good checksum that the store does not have.
Bytes forge(std::uint64_t position, std::uint64_t sequence, std::uint32_t epoch) {
  const Bytes payload(40, std::byte{0x66});
  Bytes copy(Record::size_of(payload.size()));
  emit_record(copy.data(), {.position = position, .sequence = sequence, .epoch = epoch}, payload);
  return copy;
}

// A forged copy of what is ahead does not move the reader: it is dropped as soon as the store is
// seen not to have it, and nothing is lost.
TEST_F(Copies, ForgedOnesAheadAreDropped) {
  rig.publish(4);
  rig.hand_on(0, 3);
  const std::uint64_t tail = end_of(rig.copies[3]);
  rig.reader.on_copy(forge(tail + 640, 8, 7), rig.now_ns);
  rig.reader.on_copy(forge(tail + (std::uint64_t{1} << 60), 1'000'000, 7), rig.now_ns);
  EXPECT_EQ(counters().held.value(), 2u);
  ASSERT_TRUE(rig.round());
  EXPECT_EQ(counters().beyond_tail.value(), 2u);
  rig.publish(20);
  rig.hand_on(4, 23);
  EXPECT_EQ(rig.judge.messages, 24u);
  EXPECT_TRUE(rig.judge.lost.empty());
}

// Those that cannot be, given what has been read, are refused at once: numbers that do not fit
// between, places in the middle of the ring's end, other epochs.
TEST_F(Copies, ForgedOnesThatCannotBeAreRefused) {
  rig.publish(4);
  rig.hand_on(0, 3);
  const std::uint64_t tail = end_of(rig.copies[3]);
  const std::uint64_t ring = rig.store->ring_bytes();
  rig.reader.on_copy(forge(tail, 5, 7), rig.now_ns);       // its place, but not its number
  rig.reader.on_copy(forge(tail + 64, 4, 7), rig.now_ns);  // its number, but not its place
  rig.reader.on_copy(forge(tail + 64, 6, 7), rig.now_ns);  // two messages in 64 bytes
  rig.reader.on_copy(forge(tail + 64, 2, 7), rig.now_ns);  // an old number at a new place
  rig.reader.on_copy(forge(ring - 64, 8, 7), rig.now_ns);  // over the ring's end
  rig.reader.on_copy(forge(tail + 16, 4, 7), rig.now_ns);  // not aligned
  rig.reader.on_copy(forge(UINT64_MAX - 63, 9, 7), rig.now_ns);
  EXPECT_EQ(counters().invalid_sequence.value(), 7u);
  rig.reader.on_copy(forge(tail, 4, 8), rig.now_ns);
  EXPECT_EQ(counters().invalid_epoch.value(), 1u);
  EXPECT_EQ(counters().held.value(), 0u);
  EXPECT_EQ(rig.judge.messages, 4u);
  rig.publish(2);
  rig.hand_on(4, 5);
  EXPECT_EQ(rig.judge.messages, 6u);
}

// A forged copy may begin in the middle of a record: what is missing is READ all the same.
TEST_F(Copies, ForgedOnesInTheMiddleOfARecord) {
  std::uint64_t longer = 0;
  for (rig.publish(); rig.copies[longer].size() < 256; rig.publish()) {
    rig.hand_on(longer++);
  }
  rig.publish(2);
  rig.reader.on_copy(forge(begin_of(rig.copies[longer]) + 96, longer + 1, 7), rig.now_ns);
  EXPECT_EQ(counters().held.value(), 1u);
  rig.run_for(CopiesRig::kHeartbeatNs);
  EXPECT_EQ(rig.judge.messages, longer + 3);
  EXPECT_TRUE(rig.judge.lost.empty());
}

// PB-27: copies of another epoch are refused until the store has been READ, and none of the old one
// is delivered behind that.
TEST_F(Copies, EpochsAreNotMixed) {
  rig.publish(6);
  rig.hand_on(0, 2);
  rig.hand_on(5);
  const std::vector<Bytes> old = rig.copies;
  rig.start_store(9);
  rig.publish(3);
  rig.hand_on(0, 1);
  EXPECT_EQ(counters().invalid_epoch.value(), 2u);
  rig.run_for(2 * CopiesRig::kHeartbeatNs);
  EXPECT_EQ(rig.judge.restarts, 1u);
  EXPECT_EQ(rig.judge.messages, 6u);
  for (const Bytes& copy : old) {
    rig.reader.on_copy(copy, rig.now_ns);
  }
  rig.publish();
  rig.hand_on(3);
  EXPECT_EQ(rig.judge.messages, 7u);
}

// What comes before the first READ, or during a pause, is READ.
TEST_F(Copies, EarlyOnesAreRead) {
  CopiesRig begins;
  ASSERT_TRUE(begins.begin());
  begins.publish(2);
  begins.hand_on(0, 1);
  begins.end();
  const std::uint64_t began_ns = begins.now_ns;
  for (int i = 0; i < 3; ++i) {
    begins.round();
  }
  EXPECT_EQ(begins.now_ns, began_ns);
  EXPECT_EQ(begins.judge.messages, 2u);
  begins.publish(3);
  begins.reader.pause(true);
  begins.hand_on(2, 3);
  EXPECT_EQ(begins.judge.messages, 2u);
  begins.reader.pause(false);
  for (int i = 0; i < 3; ++i) {
    begins.round();
  }
  EXPECT_EQ(begins.judge.messages, 5u);
  EXPECT_EQ(begins.reader.copy_counters().early.value(), 4u);
  begins.expect_good();
}

// PB-5, PB-6, PB-13 to PB-17, PB-20, PB-21: copies lost, repeated, reordered and forged, rounds
// that take their time, a writer that overtakes them. All that is told tiles what was published,
// and lost is only what the store had not any more.
TEST(CopiesAtRandom, DeliveredAndLostTileExactly) {
  sim::Rng seeds(test::seed());
  std::uint64_t lost = 0;
  std::uint64_t repaired = 0;
  for (int run = 0; run < 300; ++run) {
    sim::Rng rng(seeds.next());
    CopiesRig rig({.start = {.at = Start::At::sequence, .value = 0},
                   .ring = rng.pick<std::uint64_t>({4096, 16384, 131072}),
                   .held = static_cast<std::uint32_t>(rng.between(1, 200))});
    const auto loss = static_cast<unsigned>(rng.pick({0, 5, 30}));
    const auto burst = rng.pick<std::uint64_t>({2, 10});
    bool on_its_way = false;
    std::vector<std::uint64_t> late;
    ASSERT_TRUE(rig.round());
    for (int turn = 0; turn < 300; ++turn) {
      const std::uint64_t first = rig.store->next_sequence();
      rig.publish(rng.between(0, burst));
      for (std::uint64_t i = first; i < rig.store->next_sequence(); ++i) {
        if (rng.chance(loss)) continue;
        if (rng.chance(10)) {
          late.push_back(i);
        } else {
          rig.hand_on(i);
        }
      }
      while (!late.empty() && rng.chance(40)) {
        const std::size_t at = rng.between(0, late.size() - 1);
        rig.hand_on(late[at]);
        if (!rng.chance(20)) late.erase(late.begin() + static_cast<std::ptrdiff_t>(at));
      }
      if (rng.chance(10)) {
        rig.reader.on_copy(forge(rng.between(0, 1 << 16) * 32 + (std::uint64_t{1} << 40),
                                 rng.between(1'000'000, 2'000'000), 7),
                           rig.now_ns);
      }
      if (on_its_way && rng.chance(40)) {
        rig.end();
        on_its_way = false;
      }
      if (!on_its_way) on_its_way = rig.begin();
      rig.now_ns += rng.between(1, 2 * CopiesRig::kPollNs);
    }
    if (on_its_way) rig.end();
    rig.run_for(40 * CopiesRig::kHeartbeatNs);
    ASSERT_TRUE(rig.all_told()) << "run " << run << ": next " << rig.judge.next.value_or(0)
                                << " of " << rig.store->next_sequence();
    EXPECT_EQ(rig.judge.first, 0u);
    rig.expect_good();
    if (::testing::Test::HasFailure()) return;
    lost += rig.judge.lost.size();
    repaired += rig.reader.copy_counters().repaired.value();
  }
  EXPECT_GT(lost, 0u);
  EXPECT_GT(repaired, 0u);
}

}  // namespace
}  // namespace rockhopper::publisher::reader_copies_test
