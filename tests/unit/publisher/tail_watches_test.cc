// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Who waits for something new in a store (PB-29): without an engine.
#include "apps/services/publisher/tail_watches.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/publisher/memory.h"

namespace rockhopper::publisher {
namespace {

using Watching = StoreGrant::Watching;

constexpr std::size_t kStoreBytes = sizeof(ControlBlock) + 65536;

class TailWatchesTest : public ::testing::Test {
 protected:
  TailWatchesTest() {
    for (ServedSubscriber* subscriber : {&a_, &b_}) {
      subscriber->grants.push_back({.store = &offered_, .rkey = {}, .credentials = {}});
    }
  }
  [[nodiscard]] StoreTail tail() const { return store_->tail(); }
  void publish() {
    const std::byte byte{1};
    ASSERT_EQ(store_->publish({&byte, 1}, 0, 0), Published::yes);
    store_->commit();
  }
  void watch(ServedSubscriber& subscriber, const StoreTail& known) {
    watches_.watch(subscriber, subscriber.grants[0], known);
  }
  /// The tails that the subscriber is sent; with `room` for so many.
  std::vector<std::uint64_t> answers(ServedSubscriber& subscriber, std::size_t room = 100) {
    std::vector<std::uint64_t> sent;
    watches_.send_answers(subscriber, [&](const Changed& answer) {
      if (sent.size() == room) return false;
      EXPECT_EQ(answer.store_id, store_->id());
      sent.push_back(answer.tail.position);
      return true;
    });
    return sent;
  }

  test::GuardedMemory memory_{kStoreBytes};
  std::unique_ptr<Store> store_ = *Store::create(memory_.bytes(), {.id = 5, .epoch = 9});
  OfferedStore offered_{.name = "store", .store = store_.get(), .region = {}};
  PublisherCounters counters_;
  TailWatches watches_{counters_};
  ServedSubscriber a_;
  ServedSubscriber b_;
};

using Tails = std::vector<std::uint64_t>;

TEST_F(TailWatchesTest, AWatchIsAnsweredWhenTheTailChanges) {
  watch(a_, tail());
  EXPECT_EQ(watches_.count(), 1u);
  EXPECT_FALSE(watches_.look());
  EXPECT_EQ(answers(a_), Tails{});
  publish();
  EXPECT_TRUE(watches_.look());
  EXPECT_EQ(watches_.count(), 0u);
  EXPECT_EQ(answers(a_), Tails{tail().position});
  EXPECT_EQ(answers(a_), Tails{}) << "once";
  EXPECT_EQ(counters_.watch_answers.value(), 1u);
}

TEST_F(TailWatchesTest, WhatChangedOnTheWayIsAnsweredAtOnce) {
  const StoreTail known = tail();
  publish();
  watch(a_, known);
  EXPECT_EQ(watches_.count(), 0u);
  EXPECT_EQ(answers(a_), Tails{tail().position});
}

TEST_F(TailWatchesTest, OneWhoKnowsMoreThanOthersWaitsForLess) {
  watch(a_, tail());
  publish();
  watch(b_, tail());
  EXPECT_EQ(answers(a_), Tails{tail().position}) << "what it waited for has come";
  EXPECT_EQ(answers(b_), Tails{});
  EXPECT_EQ(watches_.count(), 1u);
}

TEST_F(TailWatchesTest, AllAreAnsweredAsASignOfLife) {
  watch(a_, tail());
  watch(b_, tail());
  watches_.answer_all();
  EXPECT_EQ(answers(a_), Tails{tail().position});
  EXPECT_EQ(answers(b_), Tails{tail().position});
}

TEST_F(TailWatchesTest, AnAnswerHasTheTailOfItsOwnTime) {
  watch(a_, tail());
  publish();
  ASSERT_TRUE(watches_.look());
  EXPECT_EQ(answers(a_, 0), Tails{}) << "there is no room";
  publish();
  EXPECT_EQ(answers(a_), Tails{tail().position});
}

TEST_F(TailWatchesTest, AGrantHasOneWatch) {
  watch(a_, tail());
  watch(a_, tail());
  EXPECT_EQ(watches_.count(), 1u);
  publish();
  ASSERT_TRUE(watches_.look());
  watch(a_, tail());
  EXPECT_EQ(a_.grants[0].watching, Watching::answer) << "the first one is still to be answered";
  EXPECT_EQ(answers(a_).size(), 1u);
}

TEST_F(TailWatchesTest, AWatchEndsWithItsGrant) {
  watch(a_, tail());
  watches_.end(a_, a_.grants[0]);
  EXPECT_EQ(watches_.count(), 0u);
  publish();
  EXPECT_FALSE(watches_.look());
  watch(b_, {});
  EXPECT_EQ(b_.answers, 1u);
  watches_.end(b_, b_.grants[0]);
  EXPECT_EQ(b_.answers, 0u);
  EXPECT_EQ(answers(b_), Tails{});
}

}  // namespace
}  // namespace rockhopper::publisher
