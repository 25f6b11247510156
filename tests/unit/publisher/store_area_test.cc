// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Several stores in one piece of memory (PB-1, PB-2).
#include "apps/services/publisher/store_area.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/publisher/layout.h"
#include "tests/sim/rng.h"
#include "tests/support/seed.h"

namespace rockhopper::publisher {
namespace {

struct alignas(StoreArea::kAlignment) Page {
  std::byte bytes[StoreArea::kAlignment];
};

class StoreAreas : public ::testing::Test {
 protected:
  static constexpr std::size_t kPages = 64;
  static constexpr std::byte kCanary{0xa5};
  std::vector<Page> pages_ = std::vector<Page>(kPages + 2);
  std::span<std::byte> memory_{pages_[1].bytes, kPages * sizeof(Page)};
};

// PB-1, PB-2: pieces are apart, inside, aligned and zeroed, whatever came and went.
TEST_F(StoreAreas, PiecesAreApart) {
  for (Page& page : pages_) {
    std::fill(std::begin(page.bytes), std::end(page.bytes), kCanary);
  }
  sim::Rng rng(test::seed());
  auto area = *StoreArea::create(memory_);
  std::vector<std::span<std::byte>> pieces;
  bool exhausted = false;
  for (int i = 0; i < 2000; ++i) {
    if (!pieces.empty() && rng.chance(45)) {
      const std::size_t which = rng.between(0, pieces.size() - 1);
      ASSERT_TRUE(area.release(pieces[which]).has_value());
      pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(which));
      continue;
    }
    const std::uint64_t bytes = rng.between(1, 6 * sizeof(Page));
    auto piece = area.allocate(bytes);
    if (!piece) {
      exhausted = true;
      continue;
    }
    ASSERT_EQ(piece->size(), bytes);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(piece->data()) % StoreArea::kAlignment, 0u);
    ASSERT_GE(piece->data(), memory_.data());
    ASSERT_LE(piece->data() + bytes, memory_.data() + memory_.size());
    ASSERT_TRUE(std::all_of(piece->begin(), piece->end(),
                            [](std::byte byte) { return byte == std::byte{0}; }));
    for (const auto& other : pieces) {
      ASSERT_TRUE(piece->data() + bytes <= other.data() ||
                  other.data() + other.size() <= piece->data());
    }
    std::fill(piece->begin(), piece->end(), std::byte{0x77});
    pieces.push_back(*piece);
  }
  EXPECT_TRUE(exhausted);
  for (const auto& piece : pieces) {
    ASSERT_TRUE(area.release(piece).has_value());
  }
  EXPECT_EQ(area.used(), 0u);
  EXPECT_TRUE(area.allocate(memory_.size()).has_value()) << "all of it is free again";
  for (const Page* page : {&pages_.front(), &pages_.back()}) {
    for (const std::byte byte : page->bytes) {
      ASSERT_EQ(byte, kCanary);
    }
  }
}

TEST_F(StoreAreas, BadCallsAreRefused) {
  EXPECT_FALSE(StoreArea::create({}).has_value());
  EXPECT_FALSE(StoreArea::create(memory_.subspan(1)).has_value());
  auto area = *StoreArea::create(memory_);
  EXPECT_FALSE(area.allocate(0).has_value());
  EXPECT_FALSE(area.allocate(memory_.size() + 1).has_value());
  EXPECT_FALSE(area.allocate(UINT64_MAX).has_value());
  auto piece = *area.allocate(100);
  EXPECT_FALSE(area.release(piece.first(99)).has_value());
  EXPECT_FALSE(area.release(memory_.subspan(4096, 100)).has_value());
  EXPECT_TRUE(area.release(piece).has_value());
  EXPECT_FALSE(area.release(piece).has_value()) << "twice";
}

}  // namespace
}  // namespace rockhopper::publisher
