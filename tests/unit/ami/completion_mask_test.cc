// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The completion bit mask: a bit for each slot (AM-7), taken and cleared in one step (AM-11), found
// without a look at words that have none (AM-25). That nothing is lost between two threads is
// ami-interleavings' matter.
#include "apps/services/ami/completion_mask.h"

#include <atomic>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace rockhopper::ami {
namespace {

/// std::atomic that counts who looks at it.
struct Counting {
  static inline unsigned accesses = 0;
  template <typename T>
  class Atomic : public std::atomic<T> {
   public:
    using std::atomic<T>::atomic;
    T load(std::memory_order order) const {
      ++accesses;
      return std::atomic<T>::load(order);
    }
    T exchange(T value, std::memory_order order) {
      ++accesses;
      return std::atomic<T>::exchange(value, order);
    }
  };
};

template <typename S>
std::vector<std::uint32_t> taken(CompletionMask<S>& mask) {
  std::vector<std::uint32_t> slots;
  mask.take([&](std::uint32_t slot) { slots.push_back(slot); });
  return slots;
}

class CompletionMaskTest : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(CompletionMaskTest, HasABitForEachSlot) {
  const std::uint32_t slots = GetParam();
  CompletionMask<> mask(slots);
  EXPECT_FALSE(mask.any());
  EXPECT_TRUE(taken(mask).empty());
  const std::uint32_t step = slots > 4096 ? 61 : 1;
  for (std::uint32_t slot = 0; slot < slots; slot += step) {
    mask.set(slot);
    EXPECT_TRUE(mask.any());
    EXPECT_EQ(taken(mask), std::vector{slot});
    EXPECT_FALSE(mask.any());
    EXPECT_TRUE(taken(mask).empty()) << "each bit once";
  }
  std::vector<std::uint32_t> all;
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    all.push_back(slot);
  }
  for (std::uint32_t slot = slots; slot-- > 0;) {
    mask.set(slot);
  }
  EXPECT_EQ(taken(mask), all);
  EXPECT_FALSE(mask.any());
}

INSTANTIATE_TEST_SUITE_P(Slots, CompletionMaskTest,
                         ::testing::Values(2, 4, 64, 128, 4096, 8192, 1u << 18));

/// From a callback slots may be injected and completed again, the one that is being called too.
TEST(CompletionMask, BitsSetWhileOthersAreTakenAreTakenOnce) {
  CompletionMask<> mask(4096);
  std::multiset<std::uint32_t> seen;
  for (const std::uint32_t slot : {0u, 70u, 4095u}) {
    mask.set(slot);
  }
  const auto take = [&] {
    mask.take([&](std::uint32_t slot) {
      if (seen.insert(slot); seen.size() <= 3) {
        mask.set(slot);             // the same word
        mask.set((slot + 1) % 64);  // the first
      }
    });
  };
  take();
  while (mask.any()) {
    take();
  }
  EXPECT_EQ(seen, (std::multiset<std::uint32_t>{0, 0, 1, 7, 70, 70, 4095, 4095}));
}

TEST(CompletionMask, NothingCostsOneLoadAndOneBitAWordOfEachLevel) {
  CompletionMask<Counting> mask(65'536);
  Counting::accesses = 0;
  EXPECT_TRUE(taken(mask).empty());
  EXPECT_EQ(Counting::accesses, 1u);
  mask.set(40'000);
  Counting::accesses = 0;
  EXPECT_EQ(taken(mask), std::vector{40'000u});
  EXPECT_LE(Counting::accesses, 4u) << "of 1024 words of 64 bits, 16 above them, and one";
}

}  // namespace
}  // namespace rockhopper::ami
