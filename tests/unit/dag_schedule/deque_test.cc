// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/deque.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace rockhopper::dag {
namespace {

struct alignas(64) Memory {
  explicit Memory(const DequeLayout& of) : layout(of), bytes(of.bytes()) {}
  [[nodiscard]] std::uint64_t word(std::uint64_t offset) const {
    std::uint64_t value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  }
  /// As peers do.
  bool compare_swap(std::uint64_t offset, std::uint64_t compare, std::uint64_t swap) {
    if (word(offset) != compare) return false;
    std::memcpy(bytes.data() + offset, &swap, sizeof swap);
    return true;
  }
  [[nodiscard]] DequeEnds ends(unsigned priority) const {
    const std::uint64_t offset = DequeLayout::top_offset(priority);
    return {.top = word(offset), .bottom = word(offset + 8)};
  }
  [[nodiscard]] DequeEntry entry(unsigned priority, std::uint64_t number) const {
    const std::uint64_t offset = layout.entry_offset(priority, number);
    return DequeEntry::from(word(offset), word(offset + 8));
  }
  DequeLayout layout;
  std::vector<std::byte> bytes;
};

DequeEntry entry_of(NodeIndex node, std::uint8_t run = 0) {
  return {.address = std::uint64_t{node} * 256 + 64, .length = 256, .node = node, .run = run};
}

// DG-38: an entry is 16 bytes, whatever is in it.
TEST(DequeEntry, WordsRoundTrip) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const DequeEntry entry{.address = random() % (std::uint64_t{1} << 40) * 64,
                           .length = static_cast<std::uint32_t>(random() % (1u << 24)) * 64,
                           .node = static_cast<NodeIndex>(random()),
                           .label = static_cast<std::uint32_t>(random() % (1u << 24)),
                           .run = static_cast<std::uint8_t>(random())};
    const auto words = entry.words();
    EXPECT_EQ(DequeEntry::from(words[0], words[1]), entry);
  }
}

// DG-38: the owner's end is a stack, the other one a queue.
TEST(Deques, OwnerAndOldest) {
  Memory memory({.capacity = 16});
  Deques deques(memory.bytes, memory.layout);
  EXPECT_TRUE(deques.empty());
  for (NodeIndex node = 0; node < 16; ++node) {
    EXPECT_TRUE(deques.push(1, entry_of(node)));
  }
  EXPECT_FALSE(deques.push(1, entry_of(16)));
  EXPECT_TRUE(deques.push(2, entry_of(17)));
  EXPECT_EQ(deques.size(1), 16u);
  EXPECT_EQ(deques.oldest(1)->node, 0u);
  EXPECT_EQ(deques.pop(1)->node, 15u);
  deques.drop_oldest(1);
  EXPECT_EQ(deques.oldest(1)->node, 1u);
  EXPECT_TRUE(deques.push_oldest(1, entry_of(99)));
  EXPECT_EQ(deques.oldest(1)->node, 99u);
  EXPECT_EQ(memory.entry(1, memory.ends(1).top).node, 99u);
  EXPECT_FALSE(deques.pop(0));
  EXPECT_EQ(deques.pop(2)->node, 17u);
}

// DG-38: what others take is of the most urgent class that has anything.
TEST(Deques, OldestEntries) {
  const DequeLayout layout{.capacity = 16};
  DequeHead head{};
  EXPECT_FALSE(oldest_entries(head, layout));
  head[2] = {.top = 30, .bottom = 35};
  const auto oldest = oldest_entries(head, layout);
  ASSERT_TRUE(oldest);
  EXPECT_EQ(oldest->priority, 2u);
  EXPECT_EQ(oldest->top, 30u);
  EXPECT_EQ(oldest->size, 5u);
  EXPECT_EQ(oldest->in_a_row, 2u) << "the ring ends there";
  head[1] = {.top = 0, .bottom = 17};
  EXPECT_EQ(oldest_entries(head, layout)->priority, 2u) << "there is no room for so many";
  head[0] = {.top = 5, .bottom = 3};
  EXPECT_EQ(oldest_entries(head, layout)->priority, 2u) << "all of them have been taken";
  head[0] = {.top = 16, .bottom = 32};
  EXPECT_EQ(oldest_entries(head, layout)->in_a_row, 16u);
}

// DG-38: what has been taken away at the top is not popped, even if that is more than is left.
TEST(Deques, TopPassesTheBottom) {
  Memory memory({.capacity = 16});
  Deques deques(memory.bytes, memory.layout);
  for (NodeIndex node = 0; node < 4; ++node) {
    ASSERT_TRUE(deques.push(0, entry_of(node)));
  }
  const DequeEnds seen = memory.ends(0);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(deques.pop(0));
  }
  ASSERT_TRUE(memory.compare_swap(0, seen.top, seen.top + half_of(seen.size())));
  EXPECT_EQ(deques.size(0), 0u);
  EXPECT_FALSE(deques.pop(0));
  ASSERT_TRUE(deques.push(0, entry_of(7)));
  EXPECT_EQ(memory.ends(0).size(), 1u);
  EXPECT_EQ(deques.oldest(0)->node, 7u);
}

// DG-38: no top that peers may write makes an entry lost, or another one appear.
TEST(Deques, ForeignTopsAreNotBelieved) {
  for (const std::uint64_t top : {~std::uint64_t{0}, std::uint64_t{1} << 40, std::uint64_t{5}}) {
    Memory memory({.capacity = 16});
    Deques deques(memory.bytes, memory.layout);
    for (NodeIndex node = 0; node < 4; ++node) {
      ASSERT_TRUE(deques.push(0, entry_of(node)));
    }
    std::memcpy(memory.bytes.data(), &top, sizeof top);
    EXPECT_EQ(deques.size(0), 4u) << top;
    for (NodeIndex node = 4; node-- > 0;) {
      EXPECT_EQ(deques.pop(0)->node, node);
    }
    EXPECT_TRUE(deques.empty());
  }
}

// DG-41: all entries of a run go, and no thief can take away what has moved into their places.
TEST(Deques, RemoveRun) {
  Memory memory({.capacity = 16});
  Deques deques(memory.bytes, memory.layout);
  for (NodeIndex node = 0; node < 10; ++node) {
    ASSERT_TRUE(deques.push(node % 2, entry_of(node, static_cast<std::uint8_t>(node % 3))));
  }
  const DequeEnds seen = memory.ends(0);
  deques.remove_run(1);
  EXPECT_FALSE(memory.compare_swap(0, seen.top, seen.top + 1));
  std::set<NodeIndex> left;
  for (unsigned priority = 0; priority < 2; ++priority) {
    while (const auto entry = deques.pop(priority)) {
      left.insert(entry->node);
    }
  }
  EXPECT_EQ(left, (std::set<NodeIndex>{0, 2, 3, 5, 6, 8, 9}));
}

/// What a thief is about: each step at another time.
struct Thief {
  enum class Step { ends, entries, advance } step = Step::ends;
  DequeEnds seen;
  std::vector<DequeEntry> entries;
};

// DG-38: an owner and thieves in any interleaving of their steps. A ready node is in the deque,
// from its push until somebody has claimed it, and is claimed once.
TEST(Deques, NoReadyNodeIsLost) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    Memory memory({.capacity = 16});
    Deques deques(memory.bytes, memory.layout);
    std::vector<Thief> thieves(1 + random() % 3);
    std::set<NodeIndex> ready;
    NodeIndex next = 0;
    const std::uint64_t pushing = 20 + random() % 60;
    for (int turn = 0; turn < 3000; ++turn) {
      const std::uint64_t choice = random() % 100;
      if (choice < 40) {
        if (random() % 100 < pushing) {
          const NodeIndex node = next++;
          const bool oldest = random() % 8 == 0;
          if (oldest ? deques.push_oldest(0, entry_of(node)) : deques.push(0, entry_of(node))) {
            ready.insert(node);
          }
        } else if (const auto entry = deques.pop(0)) {
          ready.erase(entry->node);
        }
      } else {
        Thief& thief = thieves[random() % thieves.size()];
        switch (thief.step) {
          case Thief::Step::ends:
            thief.seen = memory.ends(0);
            if (thief.seen.size() > 0) thief.step = Thief::Step::entries;
            break;
          case Thief::Step::entries: {
            thief.entries.clear();
            const std::uint64_t most = std::min<std::uint64_t>(half_of(thief.seen.size()), 4);
            for (std::uint64_t i = 0; i < most; ++i) {
              thief.entries.push_back(memory.entry(0, thief.seen.top + i));
              // The claim, at the home.
              ready.erase(thief.entries.back().node);
            }
            thief.step = Thief::Step::advance;
            break;
          }
          case Thief::Step::advance:
            memory.compare_swap(0, thief.seen.top, thief.seen.top + thief.entries.size());
            thief.step = Thief::Step::ends;
            break;
        }
      }
      // Whoever looks now finds all that are ready.
      std::set<NodeIndex> there;
      const DequeEnds ends = memory.ends(0);
      for (std::uint64_t number = ends.top; number < ends.bottom; ++number) {
        there.insert(memory.entry(0, number).node);
      }
      ASSERT_TRUE(std::includes(there.begin(), there.end(), ready.begin(), ready.end()))
          << "seed " << seed << ", turn " << turn;
    }
  }
}

}  // namespace
}  // namespace rockhopper::dag
