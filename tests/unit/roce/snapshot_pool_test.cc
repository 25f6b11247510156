// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What READs under a lock have read, kept for repetitions (LK-23).
#include "roce/lock/snapshot_pool.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace rockhopper::test {
namespace {

using roce::lock::SnapshotPool;
using Handle = SnapshotPool::Handle;

constexpr std::uint32_t kChunk = SnapshotPool::kChunkBytes;
using Bytes = std::vector<std::byte>;

Bytes bytes(std::size_t length, unsigned seed) {
  Bytes result(length);
  for (std::size_t i = 0; i < length; ++i) {
    result[i] = static_cast<std::byte>(i * 13 + i / 256 * 5 + seed);
  }
  return result;
}

Handle take(SnapshotPool& pool, const Bytes& data) {
  return pool.take(data.data(), static_cast<std::uint32_t>(data.size()));
}

bool holds(const SnapshotPool& pool, Handle handle, const Bytes& data) {
  for (std::uint32_t offset = 0; offset < data.size(); offset += 512) {
    const std::byte* at = pool.at(handle, offset);
    const std::size_t length = std::min<std::size_t>(512, data.size() - offset);
    if (at == nullptr || std::memcmp(at, &data[offset], length) != 0) return false;
  }
  return true;
}

bool is_gone(const SnapshotPool& pool, Handle handle) { return pool.at(handle, 0) == nullptr; }

TEST(SnapshotPool, KeepsACopy) {
  SnapshotPool pool(8 * kChunk);
  for (const std::uint32_t length :
       {1u, 511u, kChunk - 1, kChunk, kChunk + 1, 3 * kChunk - 1, 8 * kChunk}) {
    Bytes data = bytes(length, length);
    const Handle handle = take(pool, data);
    ASSERT_TRUE(handle.exists()) << length;
    const Bytes copy = data;
    std::ranges::fill(data, std::byte{0xee});
    EXPECT_TRUE(holds(pool, handle, copy)) << length;
    pool.release(handle);
    EXPECT_TRUE(is_gone(pool, handle));
    EXPECT_EQ(pool.free_chunks(), 8u);
  }
}

TEST(SnapshotPool, WhatIsNotAnsweredDoesNotMakeWay) {
  SnapshotPool pool(4 * kChunk);
  const Bytes data = bytes(2 * kChunk, 1);
  const Handle first = take(pool, data);
  const Handle second = take(pool, data);
  EXPECT_FALSE(take(pool, bytes(1, 9)).exists());
  EXPECT_TRUE(holds(pool, first, data));
  EXPECT_TRUE(holds(pool, second, data));
}

TEST(SnapshotPool, TheOldestAnswerMakesWay) {
  SnapshotPool pool(4 * kChunk);
  std::vector<Handle> handles;
  for (unsigned i = 0; i < 4; ++i) {
    handles.push_back(take(pool, bytes(kChunk, i)));
  }
  // In the order of the answers, not of the READs; answered twice is as once.
  for (const unsigned i : {2u, 0u, 3u, 2u}) {
    pool.set_answered(handles[i]);
  }
  const Bytes large = bytes(2 * kChunk, 77);
  const Handle next = take(pool, large);
  EXPECT_TRUE(holds(pool, next, large));
  EXPECT_TRUE(is_gone(pool, handles[2]));
  EXPECT_TRUE(is_gone(pool, handles[0]));
  EXPECT_TRUE(holds(pool, handles[1], bytes(kChunk, 1)));
  EXPECT_TRUE(holds(pool, handles[3], bytes(kChunk, 3)));
}

/// LK-23: rather no answer than another one.
TEST(SnapshotPool, AHandleThatIsGoneNeverNamesAnotherSnapshot) {
  SnapshotPool pool(kChunk);
  std::vector<Handle> gone;
  for (unsigned i = 0; i < 100; ++i) {
    const Handle handle = take(pool, bytes(100, i));
    ASSERT_TRUE(handle.exists());
    for (const Handle old : gone) {
      ASSERT_TRUE(is_gone(pool, old));
      pool.release(old);
      pool.set_answered(old);
    }
    ASSERT_TRUE(holds(pool, handle, bytes(100, i)));
    pool.release(handle);
    gone.push_back(handle);
  }
  EXPECT_TRUE(is_gone(pool, Handle{}));
  EXPECT_EQ(pool.free_chunks(), 1u);
}

TEST(SnapshotPool, RandomUseAgainstAModel) {
  std::mt19937_64 random(seed());
  constexpr std::size_t kChunks = 32;
  SnapshotPool pool(kChunks * kChunk);
  struct Kept {
    Handle handle;
    Bytes data;
    bool answered = false;
    [[nodiscard]] std::size_t chunks() const { return (data.size() + kChunk - 1) / kChunk; }
  };
  std::map<unsigned, Kept> kept;
  std::deque<unsigned> answered;  // the oldest first
  std::size_t free = kChunks;
  const auto forget = [&](unsigned name) {
    free += kept[name].chunks();
    EXPECT_TRUE(is_gone(pool, kept[name].handle));
    kept.erase(name);
    std::erase(answered, name);
  };
  for (unsigned step = 0; step < 20'000; ++step) {
    auto any = kept.begin();
    if (!kept.empty()) std::advance(any, random() % kept.size());
    switch (kept.empty() ? 0 : random() % 4) {
      case 0:
      case 1: {
        Kept next{{}, bytes(1 + random() % (8 * kChunk), step)};
        next.handle = take(pool, next.data);
        while (free < next.chunks() && !answered.empty()) {
          forget(answered.front());
        }
        ASSERT_EQ(next.handle.exists(), free >= next.chunks());
        if (!next.handle.exists()) break;
        free -= next.chunks();
        kept[step] = std::move(next);
        break;
      }
      case 2:
        pool.set_answered(any->second.handle);
        if (!any->second.answered) answered.push_back(any->first);
        any->second.answered = true;
        break;
      default:
        pool.release(any->second.handle);
        forget(any->first);
        break;
    }
    ASSERT_EQ(pool.free_chunks(), free);
    if (step % 50 == 0) {
      for (const auto& [name, one] : kept) {
        ASSERT_TRUE(holds(pool, one.handle, one.data)) << name;
      }
    }
  }
}

}  // namespace
}  // namespace rockhopper::test
