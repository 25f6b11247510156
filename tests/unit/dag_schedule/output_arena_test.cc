// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Memory for the outputs of a run at a server.
#include <gtest/gtest.h>

#include "apps/services/dag/schedule/arenas.h"
#include "apps/services/dag/store.h"

namespace rockhopper::dag::output_arena_test {
namespace {

constexpr std::uint64_t kBytes = 4096;

Pointer memory(std::uint64_t address) {
  return {.entry = {.incarnation = 1, .address = address, .length = kBytes}};
}

TEST(OutputArena, HasNothingAtFirst) {
  const OutputArena arena;
  EXPECT_FALSE(arena.has_room(64));
  EXPECT_FALSE(arena.is_asking());
  EXPECT_FALSE(arena.failure_of(0));
}

TEST(OutputArena, RecordsTakeOnePieceAfterTheOther) {
  OutputArena arena;
  arena.ask();
  EXPECT_TRUE(arena.is_asking());
  arena.on_answer(Status::ok, memory(640));
  EXPECT_FALSE(arena.is_asking());

  ASSERT_TRUE(arena.has_room(kBytes));
  EXPECT_EQ(arena.next().offset, 0u);
  EXPECT_EQ(arena.next().arena.entry.address, 640u);
  arena.take(256);
  EXPECT_EQ(arena.next().offset, 256u);
  EXPECT_FALSE(arena.has_room(kBytes));
  EXPECT_TRUE(arena.has_room(kBytes - 256));
  arena.take(kBytes - 256);
  EXPECT_FALSE(arena.has_room(64));
}

// Two records of an arena must not have the same number.
TEST(OutputArena, NumbersDiffer) {
  OutputArena arena;
  arena.ask();
  arena.on_answer(Status::ok, memory(0));
  const std::uint64_t first = arena.next().number;
  arena.take(Store::kArenaStep);
  EXPECT_NE(arena.next().number, first);
}

TEST(OutputArena, AnotherArenaIsUsedFromItsBegin) {
  OutputArena arena;
  arena.ask();
  arena.on_answer(Status::ok, memory(0));
  arena.take(kBytes);
  arena.ask();
  arena.on_answer(Status::ok, memory(kBytes));
  EXPECT_EQ(arena.next().offset, 0u);
  EXPECT_EQ(arena.next().arena.entry.address, kBytes);
}

TEST(OutputArena, ARequestThatFailsIsToldApartFromOthers) {
  OutputArena arena;
  const auto first = arena.ask();
  arena.on_answer(Status::exhausted, {});
  EXPECT_EQ(arena.failure_of(first), Status::exhausted);
  const auto second = arena.ask();
  EXPECT_EQ(arena.last_request(), second);
  EXPECT_FALSE(arena.failure_of(second));
  arena.on_answer(Status::ok, memory(0));
  EXPECT_FALSE(arena.failure_of(second));
}

TEST(OutputArena, AFailureLeavesWhatItHas) {
  OutputArena arena;
  arena.ask();
  arena.on_answer(Status::ok, memory(0));
  arena.take(kBytes - 64);
  arena.ask();
  arena.on_answer(Status::exhausted, memory(999));
  EXPECT_TRUE(arena.has_room(64));
  EXPECT_EQ(arena.next().arena.entry.address, 0u);
}

TEST(OutputArena, WhatIsLostHasNoRoom) {
  OutputArena arena;
  arena.ask();
  arena.on_answer(Status::ok, memory(0));
  arena.take(64);
  arena.forget();
  EXPECT_FALSE(arena.has_room(64));
}

// The answer for a run that had the slot before is nobody's.
TEST(Arenas, NumbersTellRunsAndServersApart) {
  const Arenas::Key key{.slot = 1, .run = RunId{0x1234}, .server = 7};
  Arenas::Key other = key;
  other.run = RunId{0x1235};
  EXPECT_NE(Arenas::number_of(key), Arenas::number_of(other));
  other = key;
  other.server = 8;
  EXPECT_NE(Arenas::number_of(key), Arenas::number_of(other));
  EXPECT_LT(Arenas::number_of({.slot = 1, .run = RunId{~0ull}, .server = 0xffff}), 1u << 24);
}

}  // namespace
}  // namespace rockhopper::dag::output_arena_test
