// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What the adapter remembers is bounded, and who names what is over finds nothing (AM-22, AM-28).
#include <array>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/ami/peer.h"
#include "apps/services/ami/transfer.h"

namespace rockhopper::ami {
namespace {

constexpr std::size_t kStride = 40;

class TransferTableTest : public ::testing::Test {
 protected:
  Transfer* take() {
    Transfer* transfer = table_.take();
    if (transfer != nullptr) transfer->peer = peer_;
    return transfer;
  }

  // Only its address matters.
  std::array<std::byte, 8> some_peer_{};
  Peer* peer_ = reinterpret_cast<Peer*>(some_peer_.data());
  std::vector<std::byte> memory_ = std::vector<std::byte>(3 * kStride);
  TransferTable table_{3, memory_.data(), kStride};
};

TEST_F(TransferTableTest, HasSoManyAndEachItsOwnBytes) {
  std::set<Transfer*> taken;
  std::set<std::uint32_t> tags;
  std::set<std::byte*> bytes;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(table_.in_use(), i);
    EXPECT_EQ(table_.free(), 3 - i);
    Transfer* transfer = take();
    ASSERT_NE(transfer, nullptr);
    taken.insert(transfer);
    tags.insert(transfer->tag());
    bytes.insert(transfer->bytes);
    EXPECT_EQ(table_.find(transfer->tag()), transfer);
  }
  EXPECT_EQ(taken.size(), 3u);
  EXPECT_EQ(tags.size(), 3u);
  EXPECT_EQ(bytes, (std::set{memory_.data(), memory_.data() + kStride, memory_.data() + 80}));
  EXPECT_EQ(take(), nullptr);
  table_.give_back(**taken.begin());
  EXPECT_EQ(table_.in_use(), 2u);
  EXPECT_EQ(take(), *taken.begin());
}

/// A reply to a message that is over must not end another one.
TEST_F(TransferTableTest, ATagIsForOneUse) {
  Transfer* first = take();
  const std::uint32_t tag = first->tag();
  table_.give_back(*first);
  EXPECT_EQ(table_.find(tag), nullptr);
  for (int i = 0; i < 1000; ++i) {
    Transfer* again = take();
    ASSERT_EQ(again, first) << "the last that was given back";
    EXPECT_NE(again->tag(), tag);
    EXPECT_EQ(table_.find(tag), nullptr);
    table_.give_back(*again);
  }
}

TEST_F(TransferTableTest, IsAsNewWhenTakenAgain) {
  Transfer* transfer = take();
  transfer->parts_posted = transfer->parts_out = 2;
  transfer->reports = transfer->placed = transfer->posted = transfer->awaits_reply = true;
  transfer->status = Status::refused;
  table_.give_back(*transfer);
  transfer = take();
  EXPECT_EQ(transfer->parts_posted + transfer->parts_out, 0);
  EXPECT_FALSE(transfer->reports || transfer->placed || transfer->posted || transfer->awaits_reply);
  EXPECT_EQ(transfer->status, Status::ok);
}

TEST_F(TransferTableTest, WhatWasNeverTakenIsNotFound) {
  Transfer* transfer = take();
  for (const std::uint32_t tag : {0u, 1u, 2u, 3u, 0xffffu, 0x10000u, 0xffffffffu}) {
    EXPECT_EQ(table_.find(tag), tag == transfer->tag() ? transfer : nullptr) << tag;
  }
}

/// Each end of a transfer needs all of it.
TEST(TransferTest, HasEndedWhenNothingIsOut) {
  Transfer transfer;
  EXPECT_FALSE(transfer.ended()) << "not posted";
  transfer.posted = true;
  EXPECT_TRUE(transfer.ended());
  transfer.parts_out = 1;
  EXPECT_FALSE(transfer.ended());
  transfer.parts_out = 0;
  transfer.awaits_reply = true;
  EXPECT_FALSE(transfer.ended());
}

TEST(BoundedQueueTest, KeepsTheOrderOverItsEnd) {
  BoundedQueue<int> queue(3);
  EXPECT_TRUE(queue.empty());
  int in = 0;
  int out = 0;
  for (int i = 0; i < 20; ++i) {
    while (!queue.full()) {
      queue.push(in++);
    }
    EXPECT_EQ(queue.size(), 3u);
    EXPECT_EQ(queue.at(2), out + 2);
    EXPECT_EQ(queue.front(), out++);
    queue.pop();
    if (i % 3 == 0) {
      queue.pop(2);
      out += 2;
    }
  }
  queue.clear();
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace rockhopper::ami
