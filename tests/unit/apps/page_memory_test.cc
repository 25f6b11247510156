// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/page_memory.h"

#include <algorithm>
#include <cstring>

#include <fcntl.h>
#include <gtest/gtest.h>

namespace rockhopper::apps {
namespace {

bool is_zero(const PageMemory& memory) {
  return std::all_of(memory.bytes().begin(), memory.bytes().end(),
                     [](std::byte byte) { return byte == std::byte{0}; });
}

TEST(PageMemory, OwnPagesAreZero) {
  auto memory = PageMemory::allocate(10'000);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->size(), 10'000u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->data()) % PageMemory::page_size(), 0u);
  EXPECT_TRUE(is_zero(*memory));
}

TEST(PageMemory, EvenNoBytesHaveAnAddress) {
  auto memory = PageMemory::allocate(0);
  ASSERT_TRUE(memory);
  EXPECT_NE(memory->data(), nullptr);
}

TEST(PageMemory, WhatIsSharedCanBeSeenByItsPath) {
  auto memory = PageMemory::share("page-memory-test", 5'000);
  ASSERT_TRUE(memory);
  EXPECT_TRUE(is_zero(*memory));
  FileDescriptor file(::open(memory->path().c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(file.valid());
  const auto seen = PageMemory::map(std::move(file), 5'000, /*writable=*/false);
  ASSERT_TRUE(seen);
  std::memcpy(memory->data() + 4'990, "behind all", 10);
  EXPECT_EQ(std::memcmp(seen->data() + 4'990, "behind all", 10), 0);
}

TEST(PageMemory, MovesWithItsPages) {
  auto memory = PageMemory::allocate(64);
  ASSERT_TRUE(memory);
  const std::byte* const data = memory->data();
  PageMemory moved = std::move(*memory);
  EXPECT_EQ(moved.data(), data);
  EXPECT_EQ(PageMemory().data(), nullptr);
  moved = PageMemory();
  EXPECT_EQ(moved.size(), 0u);
}

TEST(PageMemory, TooMuchIsAnError) {
  const auto memory = PageMemory::allocate(SIZE_MAX / 2);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, ErrorCode::exhausted);
}

}  // namespace
}  // namespace rockhopper::apps
