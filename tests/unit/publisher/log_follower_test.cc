// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What is copied of a store for multicast: its records as they lie there, and none that its writer
// is about to overwrite (PB-7, PB-13, PB-20).
#include "apps/services/publisher/log_follower.h"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tests/publisher/judge.h"
#include "tests/sim/rng.h"
#include "tests/support/seed.h"
#include "tests/unit/publisher/memory.h"

namespace rockhopper::publisher::log_follower_test {
namespace {

using Step = LogFollower::Step;
using test::content;

constexpr std::uint64_t kRing = 4096;
constexpr std::uint32_t kLongest = 600;

struct Rig {
  Rig() { follower.emplace(*store); }
  void publish(std::uint64_t count = 1) {
    for (; count > 0; --count) {
      EXPECT_EQ(store->publish(content(seed, store->next_sequence(), kLongest), 0, 0),
                Published::yes);
    }
  }
  [[nodiscard]] Step next() { return follower->next(room); }

  std::uint64_t seed = test::seed();
  test::GuardedMemory memory{store_bytes(kRing)};
  std::unique_ptr<Store> store =
      *Store::create(memory.bytes(), {.id = 3, .epoch = 5, .message_max = kLongest});
  std::optional<LogFollower> follower;
  std::array<std::byte, 1024> room{};
};

// PB-13: byte for byte, around the ring many times.
TEST(LogFollowerTest, CopiesWhatLiesInTheStore) {
  Rig rig;
  std::uint64_t expected_end = 0;
  for (std::uint64_t i = 0; i < 500; ++i) {
    rig.publish();
    ASSERT_EQ(rig.next(), Step::record);
    const std::uint64_t position = load_le<std::uint64_t>(rig.room.data());
    EXPECT_GE(position, expected_end);
    expected_end = position + rig.follower->size();
    EXPECT_EQ(expected_end, test::control_of(rig.memory.bytes()).tail_pos);
    const auto stored =
        rig.memory.bytes().subspan(sizeof(ControlBlock) + position % kRing, rig.follower->size());
    EXPECT_TRUE(std::equal(stored.begin(), stored.end(), rig.room.begin()));
    EXPECT_EQ(load_le<std::uint64_t>(rig.room.data() + 8), i);
    EXPECT_EQ(rig.next(), Step::nothing);
  }
  EXPECT_EQ(rig.follower->take_skipped(), 0u);
}

// What is not shown yet is not copied, and what has no room is passed by.
TEST(LogFollowerTest, OnlyWhatIsPublishedAndFits) {
  Rig rig;
  ASSERT_EQ(rig.store->append(content(rig.seed, 0, 100), 0, 0), Published::yes);
  EXPECT_EQ(rig.next(), Step::nothing);
  rig.store->commit();
  EXPECT_EQ(rig.next(), Step::record);
  const std::vector<std::byte> payload(200);
  ASSERT_EQ(rig.store->publish(payload, 0, 0), Published::yes);
  EXPECT_EQ(rig.follower->next(std::span(rig.room).first(128)), Step::too_long);
  EXPECT_EQ(rig.next(), Step::nothing);
  rig.publish();
  EXPECT_EQ(rig.next(), Step::record);
  EXPECT_EQ(rig.follower->take_skipped(), 0u);
}

// It begins with what is published later.
TEST(LogFollowerTest, BeginsAtTheTail) {
  Rig rig;
  rig.publish(5);
  LogFollower late(*rig.store);
  EXPECT_EQ(late.next(rig.room), Step::nothing);
  rig.publish();
  EXPECT_EQ(late.next(rig.room), Step::record);
  EXPECT_EQ(load_le<std::uint64_t>(rig.room.data() + 8), 5u);
}

// PB-21: overtaken, it goes on with the oldest message and says how many it has not seen.
TEST(LogFollowerTest, OvertakenItSkips) {
  Rig rig;
  rig.publish(2);
  ASSERT_EQ(rig.next(), Step::record);
  ASSERT_EQ(rig.next(), Step::record);
  rig.publish(200);
  const std::uint64_t oldest = rig.store->oldest_sequence();
  ASSERT_EQ(rig.next(), Step::overtaken);
  ASSERT_EQ(rig.next(), Step::record);
  EXPECT_EQ(load_le<std::uint64_t>(rig.room.data() + 8), oldest);
  EXPECT_EQ(rig.follower->take_skipped(), oldest - 2);
  EXPECT_EQ(rig.follower->take_skipped(), 0u);
}

// PB-22: what the writer has announced to overwrite is not copied, even if it is still there.
TEST(LogFollowerTest, WhatIsAnnouncedIsNotCopied) {
  Rig rig;
  const std::vector<std::byte> payload(400);
  // The ring is full and nothing has been copied.
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(rig.store->publish(payload, 0, 0), Published::yes);
  }
  LogFollower follower = *rig.follower;
  ASSERT_EQ(follower.next(rig.room), Step::record);
  ASSERT_EQ(load_le<std::uint64_t>(rig.room.data() + 8), 0u);
  // One more takes the place of the first ones; say so, and put their bytes back.
  const std::vector<std::byte> before(rig.memory.bytes().begin() + sizeof(ControlBlock),
                                      rig.memory.bytes().end());
  while (rig.store->oldest_sequence() == 0) {
    ASSERT_EQ(rig.store->append(payload, 0, 0), Published::yes);
  }
  std::copy(before.begin(), before.end(), rig.memory.bytes().begin() + sizeof(ControlBlock));
  EXPECT_EQ(rig.next(), Step::overtaken);
}

// Any bytes where a record must be: nothing is read outside the ring, and it goes on at the tail.
TEST(LogFollowerTest, DamageIsPassedBy) {
  Rig rig;
  sim::Rng rng(rig.seed);
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t before = test::control_of(rig.memory.bytes()).tail_pos;
    rig.publish(rng.between(1, 3));
    const std::uint64_t at = before % kRing;
    if (kRing - at < Record::kHeaderSize) {
      while (rig.next() != Step::nothing) {
      }
      continue;
    }
    rng.fill(
        {reinterpret_cast<std::uint8_t*>(rig.memory.bytes().data() + sizeof(ControlBlock) + at),
         Record::kHeaderSize});
    Step step = Step::nothing;
    int steps = 0;
    do {
      step = rig.next();
    } while (step != Step::nothing && ++steps < 10);
    EXPECT_EQ(step, Step::nothing);
  }
  EXPECT_TRUE(rig.memory.intact());
}

}  // namespace
}  // namespace rockhopper::publisher::log_follower_test
