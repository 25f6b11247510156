// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Which messages are delivered, and which are told as lost (PB-21, PB-32).
#include "apps/services/publisher/message_order.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace rockhopper::publisher::message_order_test {
namespace {

/// What it has been told, as text.
class Told final : public Listener {
 public:
  void on_message(const Message& message) override {
    all.push_back(std::to_string(message.sequence));
  }
  void on_lost(std::uint64_t first, std::uint64_t last) override {
    all.push_back("lost " + std::to_string(first) + "-" + std::to_string(last));
  }
  std::vector<std::string> all;
};

class MessageOrderTest : public ::testing::Test {
 protected:
  void begin(const Start& start) { order_.emplace(start, told_, counters_); }
  void take(std::uint64_t sequence, std::uint64_t time_ns = 0) {
    order_->take({.sequence = sequence, .time_ns = time_ns}, 1);
  }

  Told told_;
  ReaderCounters counters_;
  std::optional<MessageOrder> order_;
};

using All = std::vector<std::string>;

TEST_F(MessageOrderTest, BeginsWithWhatComesFirst) {
  begin({.at = Start::At::oldest});
  EXPECT_FALSE(order_->begins_at_tail());
  take(7);
  take(8);
  EXPECT_EQ(told_.all, (All{"7", "8"}));
}

TEST_F(MessageOrderTest, WhatIsPassedOverIsLost) {
  begin({.at = Start::At::tail});
  EXPECT_TRUE(order_->begins_at_tail());
  take(7);
  take(9);
  take(20);
  EXPECT_EQ(told_.all, (All{"7", "lost 8-8", "9", "lost 10-19", "20"}));
  EXPECT_EQ(counters_.lost.value(), 11u);
  EXPECT_EQ(counters_.messages.value(), 3u);
}

TEST_F(MessageOrderTest, NothingIsDeliveredTwice) {
  begin({.at = Start::At::oldest});
  take(7);
  take(7);
  take(6);
  EXPECT_EQ(told_.all, All{"7"});
  EXPECT_EQ(counters_.skipped.value(), 2u);
}

TEST_F(MessageOrderTest, ANumberBeginsThereAndTellsWhatIsGone) {
  begin({.at = Start::At::sequence, .value = 5});
  take(3);
  take(8);
  EXPECT_EQ(told_.all, (All{"lost 5-7", "8"}));
}

TEST_F(MessageOrderTest, ATimeBeginsWithTheFirstAfterIt) {
  begin({.at = Start::At::time, .value = 100});
  take(3, 98);
  take(4, 99);
  take(5, 100);
  take(6, 50);
  EXPECT_EQ(told_.all, (All{"5", "6"})) << "once it has begun, times do not matter";
}

// One of those between may have been late enough.
TEST_F(MessageOrderTest, WhatIsGoneBeforeThatTimeMayBeLost) {
  begin({.at = Start::At::time, .value = 100});
  take(3, 98);
  take(6, 101);
  EXPECT_EQ(told_.all, (All{"lost 4-5", "6"}));
}

TEST_F(MessageOrderTest, ARestartForgetsNumbersAndWhereItBegan) {
  begin({.at = Start::At::sequence, .value = 5});
  take(5);
  order_->restart();
  EXPECT_FALSE(order_->begins_at_tail());
  take(0);
  take(1);
  EXPECT_EQ(told_.all, (All{"5", "0", "1"}));
}

}  // namespace
}  // namespace rockhopper::publisher::message_order_test
