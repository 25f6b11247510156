// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The native lock word, and what claims make of it and of foreign words (LK-13, LK-14, LK-21).
#include "roce/lock/lock_word.h"

#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "roce/lock/claim.h"
#include "tests/support/seed.h"

namespace rockhopper::test::lock_word_test {
namespace {

using roce::lock::Claim;
using roce::lock::LockWord;
using roce::lock::Mode;
using roce::lock::Region;

constexpr std::uint64_t kFree = 0;
constexpr std::uint64_t kExclusive = 1;
constexpr std::uint64_t kShared = 2;

/// A word of the layout in docs/wire.md, most significant field first.
constexpr std::uint64_t word(std::uint64_t generation, std::uint64_t state, std::uint64_t flags,
                             std::uint64_t owner, std::uint64_t readers) {
  return generation << 40 | state << 36 | flags << 32 | owner << 16 | readers;
}

template <typename Visit>
void for_each_word(Visit visit) {
  for (const std::uint64_t generation : {0x0u, 0x1u, 0x800000u, 0xfffffeu, 0xffffffu}) {
    for (std::uint64_t state = 0; state < 16; ++state) {
      for (std::uint64_t flags = 0; flags < 16; ++flags) {
        for (const std::uint64_t owner : {0x0u, 0x1u, 0x7fffu, 0xffffu}) {
          for (const std::uint64_t readers : {0x0u, 0x1u, 0x2u, 0xfffeu, 0xffffu}) {
            visit(generation, state, flags, owner, readers);
          }
        }
      }
    }
  }
}

std::uint64_t freed(std::uint64_t generation, std::uint64_t flags) {
  return word((generation + 1) & 0xffffff, kFree, flags & 0b1101, 0, 0);
}

std::optional<std::uint64_t> value_of(const std::optional<LockWord>& word) {
  return word ? std::optional(word->value()) : std::nullopt;
}

TEST(LockWord, HasTheLayoutOfTheDocument) {
  for_each_word([](auto generation, auto state, auto flags, auto owner, auto readers) {
    const std::uint64_t value = word(generation, state, flags, owner, readers);
    const LockWord parsed = LockWord::from(value);
    ASSERT_EQ(parsed.generation, generation);
    ASSERT_EQ(static_cast<std::uint64_t>(parsed.state), state);
    ASSERT_EQ(parsed.flags, flags);
    ASSERT_EQ(parsed.owner, owner);
    ASSERT_EQ(parsed.readers, readers);
    ASSERT_EQ(parsed.value(), value);
  });
  EXPECT_EQ(roce::lock::kWaitersBit, word(0, 0, 1, 0, 0));
}

/// LK-13: only a free word can be had exclusively; states that nobody writes are not free.
TEST(LockWord, AcquireExclusiveOfEveryWord) {
  for_each_word([](auto generation, auto state, auto flags, auto owner, auto readers) {
    const LockWord before = LockWord::from(word(generation, state, flags, owner, readers));
    for (const bool leased : {false, true}) {
      std::optional<std::uint64_t> expected;
      if (state == kFree) {
        expected = word(generation, kExclusive, flags | (leased ? 2u : 0u), 0x1234, readers);
      }
      ASSERT_EQ(value_of(roce::lock::acquire_exclusive(before, 0x1234, leased)), expected);
    }
  });
}

/// LK-13: readers share it as long as they can be counted.
TEST(LockWord, AcquireSharedOfEveryWord) {
  for_each_word([](auto generation, auto state, auto flags, auto owner, auto readers) {
    const LockWord before = LockWord::from(word(generation, state, flags, owner, readers));
    std::optional<std::uint64_t> expected;
    if (state == kFree) expected = word(generation, kShared, flags, owner, 1);
    if (state == kShared && readers < 0xffff) {
      expected = word(generation, kShared, flags, owner, readers + 1);
    }
    ASSERT_EQ(value_of(roce::lock::acquire_shared(before)), expected);
  });
}

/// LK-21: only the owner, and only in the generation that it was granted in.
TEST(LockWord, ReleaseExclusiveOfEveryWord) {
  for_each_word([](auto generation, auto state, auto flags, auto owner, auto readers) {
    const LockWord before = LockWord::from(word(generation, state, flags, owner, readers));
    for (const std::uint16_t who : std::initializer_list<std::uint16_t>{0, 1, 0xffff}) {
      for (const std::uint32_t since : {0x0u, 0x1u, 0xffffffu}) {
        std::optional<std::uint64_t> expected;
        if (state == kExclusive && owner == who && generation == since) {
          expected = freed(generation, flags);
        }
        ASSERT_EQ(value_of(roce::lock::release_exclusive(before, who, since)), expected);
      }
    }
  });
}

TEST(LockWord, ReleaseSharedOfEveryWord) {
  for_each_word([](auto generation, auto state, auto flags, auto owner, auto readers) {
    const LockWord before = LockWord::from(word(generation, state, flags, owner, readers));
    std::optional<std::uint64_t> expected;
    if (state == kShared && readers == 1) expected = freed(generation, flags);
    if (state == kShared && readers > 1) {
      expected = word(generation, kShared, flags, owner, readers - 1);
    }
    ASSERT_EQ(value_of(roce::lock::release_shared(before)), expected);
  });
}

// Claims: the same on memory.

struct Memory {
  std::uint64_t word = 0;
  Region region{&word, sizeof word, {.first_token = 1000}};

  Claim claim(Mode mode, std::uint16_t owner = 0) {
    return {.word = &word, .region = &region, .mode = mode, .owner = owner};
  }
};

/// Any order of claims, by a model that knows who holds what. LK-30: tokens increase.
TEST(LockClaim, RandomOrderAgainstAModel) {
  std::mt19937_64 random(seed());
  Memory memory;
  struct Party {
    Claim claim;
    bool holds = false;
  };
  std::vector<Party> parties;
  for (std::uint16_t i = 0; i < 8; ++i) {
    parties.push_back({memory.claim(i < 4 ? Mode::exclusive : Mode::shared, i)});
  }
  std::uint64_t generation = 0;
  std::uint64_t last_token = 0;
  std::uint64_t readers = 0;
  const Party* writer = nullptr;
  for (int step = 0; step < 200'000; ++step) {
    Party& party = parties[random() % parties.size()];
    const bool shared = party.claim.mode == Mode::shared;
    if (party.holds || random() % 4 == 0) {
      // Who does not hold it as a writer changes nothing; readers are not known by name.
      if (shared && !party.holds) continue;
      ASSERT_EQ(random() % 2 == 0 ? party.claim.give_back() : party.claim.undo(), party.holds);
      if (!party.holds) continue;
      party.holds = false;
      readers -= shared ? 1 : 0;
      if (!shared) writer = nullptr;
      generation += readers == 0 ? 1 : 0;
    } else {
      const bool may = writer == nullptr && (shared || readers == 0);
      ASSERT_EQ(party.claim.take(), may);
      if (!may) continue;
      party.holds = true;
      ASSERT_GT(party.claim.token, last_token);
      last_token = party.claim.token;
      readers += shared ? 1 : 0;
      if (!shared) writer = &party;
    }
    const std::uint64_t owner = writer == nullptr ? 0 : writer->claim.owner;
    const std::uint64_t state = writer != nullptr ? kExclusive : readers > 0 ? kShared : kFree;
    ASSERT_EQ(memory.word, word(generation & 0xffffff, state, 0, owner, readers));
  }
}

/// LK-21: the same owner of an earlier time is not the owner.
TEST(LockClaim, AnEarlierGenerationIsNotReleased) {
  Memory memory;
  Claim first = memory.claim(Mode::exclusive, 7);
  ASSERT_TRUE(first.take());
  memory.word = word(1, kFree, 0, 0, 0);  // its lease has ended
  Claim second = memory.claim(Mode::exclusive, 7);
  ASSERT_TRUE(second.take());
  const std::uint64_t held = memory.word;
  EXPECT_FALSE(first.give_back());
  EXPECT_FALSE(first.undo());
  EXPECT_EQ(memory.word, held);
  EXPECT_TRUE(second.give_back());
}

/// LK-14: bits outside the masks are never disturbed, the condition looks at its mask only.
TEST(LockClaim, ForeignWordsUnderMasks) {
  std::mt19937_64 random(seed());
  for (int i = 0; i < 20'000; ++i) {
    Memory memory;
    const std::uint64_t before = memory.word = random();
    const bool add = i % 2 == 0;
    // Adding: a field of the low 8 bits and one of 16; swapping: any.
    const std::uint64_t mask = add ? 0x8080 : random();
    const std::uint64_t compare_mask = random() & random();
    const bool met = random() % 2 == 0;
    std::uint64_t compare = before;
    if (!met) compare ^= compare_mask & -compare_mask;
    compare ^= random() & ~compare_mask;
    const std::uint64_t operand = random();
    Claim claim = memory.claim(add ? Mode::foreign_add : Mode::foreign_swap);
    claim.operation = {
        .compare = compare, .compare_mask = compare_mask, .swap_add = operand, .mask = mask};
    const bool expected = met || compare_mask == 0;
    ASSERT_EQ(claim.take(), expected);
    ASSERT_EQ(claim.previous, before);
    std::uint64_t after = before;
    if (expected && add) {
      const std::uint64_t low = (before + operand) & 0xff;
      const std::uint64_t middle = ((before >> 8) + (operand >> 8)) & 0xff;
      const std::uint64_t high = (before >> 16) + (operand >> 16);
      after = high << 16 | middle << 8 | low;
    } else if (expected) {
      after = (before & ~mask) | (operand & mask);
    }
    ASSERT_EQ(memory.word, after);
    if (!expected) continue;
    // Others may change what is outside of the masks before it is put back.
    const std::uint64_t others = add ? 0 : random() & ~mask;
    memory.word ^= others;
    ASSERT_TRUE(claim.undo());
    ASSERT_EQ(memory.word, before ^ others);
  }
}

}  // namespace
}  // namespace rockhopper::test::lock_word_test
