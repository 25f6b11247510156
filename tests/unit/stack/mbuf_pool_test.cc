// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/mbuf_pool.h"

#include <cstring>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rte_memory.h>

namespace rockhopper::stack {
namespace {

using ::testing::HasSubstr;

/// Its buffers are smaller than a page, about one, or several pages long; in the EAL's memory, or
/// of this process alone.
class MbufPoolOf : public ::testing::TestWithParam<std::tuple<std::uint16_t, bool>> {};

TEST_P(MbufPoolOf, GivesAllItsMbufsAndEachIsWhole) {
  constexpr unsigned kSize = 1023;
  const auto [room, of_this_process] = GetParam();
  auto pool = MbufPool::create({.size = kSize,
                                .cache = 0,
                                .data_room = room,
                                .private_size = 16,
                                .of_this_process = of_this_process});
  ASSERT_TRUE(pool.has_value()) << pool.error().message;
  std::vector<rte_mbuf*> taken(kSize);
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(pool->get(), taken.data(), kSize), 0);
  EXPECT_EQ(pool->in_use(), kSize);
  EXPECT_EQ(rte_pktmbuf_alloc(pool->get()), nullptr) << "and no more";
  EXPECT_EQ(rte_mem_virt2memseg(taken[0], nullptr) == nullptr, of_this_process);
  for (unsigned i = 0; i < kSize; ++i) {
    char* bytes = rte_pktmbuf_append(taken[i], room);
    ASSERT_NE(bytes, nullptr);
    std::memset(bytes, static_cast<int>(i % 251), room);
  }
  for (unsigned i = 0; i < kSize; ++i) {
    const char* bytes = rte_pktmbuf_mtod(taken[i], const char*);
    ASSERT_EQ(bytes[0], static_cast<char>(i % 251)) << i;
    ASSERT_EQ(bytes[room - 1], static_cast<char>(i % 251)) << i;
  }
  rte_pktmbuf_free_bulk(taken.data(), kSize);
  EXPECT_EQ(pool->in_use(), 0u);
}

INSTANTIATE_TEST_SUITE_P(DataRooms, MbufPoolOf,
                         ::testing::Combine(::testing::Values(64, 2048, 3900, 4352, 9216),
                                            ::testing::Bool()));

TEST(MbufPool, WhatCannotBeIsRefused) {
  const auto odd = MbufPool::create({.size = 63, .private_size = 4});
  ASSERT_FALSE(odd.has_value());
  EXPECT_EQ(odd.error().code, ErrorCode::invalid_argument);
  const auto huge = MbufPool::create({.size = (1u << 24) - 1, .data_room = 9216});
  ASSERT_FALSE(huge.has_value());
  EXPECT_EQ(huge.error().code, ErrorCode::exhausted);
  EXPECT_THAT(huge.error().message, HasSubstr("give the EAL more memory"));
}

TEST(MbufPool, MemoryOfAnEndedOneIsUsedAgain) {
  for (const bool of_this_process : {false, true}) {
    for (int i = 0; i < 100; ++i) {
      const auto pool = MbufPool::create({.size = 4095, .of_this_process = of_this_process});
      ASSERT_TRUE(pool.has_value()) << i << ": " << pool.error().message;
    }
  }
}

}  // namespace
}  // namespace rockhopper::stack
