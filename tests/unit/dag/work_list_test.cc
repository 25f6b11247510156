// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What an operation asks of the transport together.
#include "apps/services/dag/work_list.h"

#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

namespace rockhopper::dag {
namespace {

using roce::WcStatus;

class WorkListTest : public ::testing::Test {
 protected:
  void add(std::uint64_t remote) { list_.add({.remote = remote}); }
  void post_all() {
    while (!list_.is_posted()) {
      list_.on_posted();
    }
  }

  WorkList list_;
};

TEST_F(WorkListTest, IsPostedInOrder) {
  EXPECT_TRUE(list_.is_posted());
  add(10);
  add(11);
  for (const std::uint64_t remote : {10, 11}) {
    ASSERT_FALSE(list_.is_posted());
    EXPECT_EQ(list_[list_.next()].remote, remote);
    list_.on_posted();
  }
  EXPECT_TRUE(list_.is_posted());
  EXPECT_TRUE(list_.is_outstanding());
}

TEST_F(WorkListTest, CompletesInAnyOrder) {
  add(10);
  add(11);
  post_all();
  list_.on_complete(1, WcStatus::outcome_unknown);
  EXPECT_TRUE(list_.is_outstanding());
  list_.on_complete(0, WcStatus::success);
  EXPECT_FALSE(list_.is_outstanding());
  EXPECT_FALSE(list_[0].is_unknown());
  EXPECT_TRUE(list_[1].is_unknown());
}

TEST_F(WorkListTest, WhatIsGivenUpIsNotPosted) {
  add(10);
  add(11);
  list_.on_posted();
  list_.give_up();
  EXPECT_TRUE(list_.is_posted());
  list_.on_complete(0, WcStatus::success);
  EXPECT_FALSE(list_.is_outstanding()) << "the other one never was";
}

TEST_F(WorkListTest, CanBeRepeated) {
  add(10);
  post_all();
  list_.on_complete(0, WcStatus::outcome_unknown);
  list_.repeat();
  EXPECT_EQ(list_.next(), 0u);
  post_all();
  list_.on_complete(0, WcStatus::success);
  EXPECT_FALSE(list_[0].is_unknown());
}

TEST_F(WorkListTest, IsEmptyAfterClear) {
  add(10);
  post_all();
  list_.on_complete(0, WcStatus::success);
  list_.clear();
  EXPECT_EQ(list_.size(), 0u);
  EXPECT_TRUE(list_.is_posted());
}

TEST_F(WorkListTest, HasRoomForOneMoreWhenItIsFull) {
  add(0);
  list_.make_room();
  EXPECT_EQ(list_.size(), 1u) << "there is room";
  for (std::uint64_t i = 1; i < WorkList::kMax; ++i) {
    add(i);
  }
  post_all();
  for (std::size_t i = 0; i < WorkList::kMax; ++i) {
    list_.on_complete(i, WcStatus::success);
  }
  list_.make_room();
  EXPECT_TRUE(list_.is_posted());
  add(99);
  EXPECT_EQ(list_.back().remote, 99u);
  EXPECT_EQ(list_.next(), WorkList::kMax - 1);
}

}  // namespace
}  // namespace rockhopper::dag
