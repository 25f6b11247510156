// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/plain_pool.h"

#include <array>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "stack/random.h"
#include "tests/support/packets.h"

namespace rockhopper::stack {
namespace {

using test::Bytes;

std::unique_ptr<PlainPool> make(const PlainPoolConfig& config) {
  auto pool = PlainPool::create(config);
  EXPECT_TRUE(pool.has_value()) << (pool ? "" : pool.error().message);
  return pool ? std::move(*pool) : nullptr;
}

TEST(PlainPool, GivesEachMbufOnceAndTakesItBack) {
  const auto pool = make({.size = 3, .data_room = 100});
  std::array<rte_mbuf*, 3> mbufs{};
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(pool->get(), mbufs.data(), 3), 0);
  EXPECT_EQ(pool->in_use(), 3u);
  EXPECT_EQ(rte_pktmbuf_alloc(pool->get()), nullptr) << "there is none left";
  EXPECT_NE(mbufs[0], mbufs[1]);
  EXPECT_NE(mbufs[1], mbufs[2]);
  for (rte_mbuf* mbuf : mbufs) {
    EXPECT_EQ(mbuf->pool, pool->get());
    EXPECT_EQ(rte_pktmbuf_headroom(mbuf), RTE_PKTMBUF_HEADROOM);
    EXPECT_EQ(rte_pktmbuf_tailroom(mbuf), 100);
    EXPECT_EQ(rte_mbuf_refcnt_read(mbuf), 1);
  }
  rte_pktmbuf_free(mbufs[1]);
  EXPECT_EQ(rte_pktmbuf_alloc(pool->get()), mbufs[1]) << "the last one is warm";
  rte_pktmbuf_free_bulk(mbufs.data(), 3);
  EXPECT_EQ(pool->in_use(), 0u);
}

TEST(PlainPool, BuffersDoNotOverlap) {
  const auto pool = make({.size = 64, .data_room = 301});
  std::vector<rte_mbuf*> packets;
  Random random(1);
  std::vector<Bytes> expected;
  for (int i = 0; i < 64; ++i) {
    expected.push_back(test::random_bytes(random, 301));
    packets.push_back(test::make_packet(pool->get(), expected.back()));
  }
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(test::bytes_of(packets[i]), expected[i]);
    rte_pktmbuf_free(packets[i]);
  }
}

TEST(PlainPool, ClonesChainsAndCopiesComeBack) {
  const auto pool = make({.size = 16, .data_room = 64});
  rte_mbuf* chain = test::make_packet(pool->get(), Bytes(200, 7));
  ASSERT_EQ(chain->nb_segs, 4);
  rte_mbuf* clone = rte_pktmbuf_clone(chain, pool->get());
  rte_mbuf* copy = rte_pktmbuf_copy(chain, pool->get(), 0, UINT32_MAX);
  ASSERT_NE(clone, nullptr);
  ASSERT_NE(copy, nullptr);
  rte_pktmbuf_free(chain);
  EXPECT_EQ(test::bytes_of(clone), Bytes(200, 7));
  rte_pktmbuf_free(clone);
  EXPECT_EQ(pool->in_use(), 4u) << "of the copy";
  rte_pktmbuf_free(copy);
  EXPECT_EQ(pool->in_use(), 0u);
}

TEST(PlainPool, RefusesWhatCannotBe) {
  EXPECT_EQ(PlainPool::create({.size = 0}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(PlainPool::create({.size = 1u << 21}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(PlainPool::create({.data_room = 0}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(PlainPool::create({.data_room = UINT16_MAX}).error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace rockhopper::stack
