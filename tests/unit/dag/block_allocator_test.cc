// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/block_allocator.h"

#include <iterator>
#include <map>

#include <gtest/gtest.h>

#include "apps/services/dag/record.h"
#include "tests/sim/rng.h"
#include "tests/support/seed.h"

namespace rockhopper::dag {
namespace {

// DG-30: no two blocks share a byte; what comes back can all be had again.
TEST(BlockAllocator, BlocksAreApart) {
  sim::Rng rng(test::seed());
  constexpr std::uint64_t kBytes = 64 * 1024;
  BlockAllocator allocator(kBytes);
  std::map<std::uint64_t, std::uint64_t> blocks;
  unsigned refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (rng.chance(52)) {
      const std::uint64_t bytes = rng.between(1, 4000);
      const auto address = allocator.allocate(bytes);
      if (!address) {
        ++refused;
        continue;
      }
      EXPECT_EQ(*address % kRecordAlignment, 0u);
      EXPECT_LE(*address + bytes, kBytes);
      const auto next = blocks.lower_bound(*address);
      if (next != blocks.end()) {
        EXPECT_LE(*address + bytes, next->first);
      }
      if (next != blocks.begin()) {
        EXPECT_LE(std::prev(next)->first + std::prev(next)->second, *address);
      }
      blocks.emplace(*address, bytes);
    } else if (!blocks.empty()) {
      auto block = blocks.begin();
      std::advance(block, static_cast<std::ptrdiff_t>(rng.between(0, blocks.size() - 1)));
      allocator.release(block->first, block->second);
      blocks.erase(block);
    }
  }
  EXPECT_GT(refused, 0u);
  for (const auto& [address, bytes] : blocks) {
    allocator.release(address, bytes);
  }
  EXPECT_EQ(allocator.free_bytes(), kBytes);
  EXPECT_EQ(allocator.allocate(kBytes), 0u);
}

TEST(BlockAllocator, RefusesWhatThereIsNot) {
  BlockAllocator allocator(100);
  EXPECT_EQ(allocator.size(), 64u);
  EXPECT_FALSE(allocator.allocate(0));
  EXPECT_FALSE(allocator.allocate(65));
  EXPECT_FALSE(allocator.allocate(UINT64_MAX));
  EXPECT_TRUE(allocator.allocate(64));
  EXPECT_FALSE(allocator.allocate(1));
}

}  // namespace
}  // namespace rockhopper::dag
