// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// A queue with a limit, against one without.
#include "apps/services/ami/bounded_queue.h"

#include <cstddef>
#include <deque>

#include <gtest/gtest.h>

namespace rockhopper::ami {
namespace {

TEST(BoundedQueue, IsFullAtItsLimit) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.empty());
  queue.push(1);
  EXPECT_FALSE(queue.full());
  queue.push(2);
  EXPECT_TRUE(queue.full());
  queue.pop();
  EXPECT_FALSE(queue.full());
  EXPECT_EQ(queue.front(), 2);
}

TEST(BoundedQueue, GoesRoundWithoutLosingOrder) {
  constexpr std::size_t kLimit = 5;
  BoundedQueue<int> queue(kLimit);
  std::deque<int> model;
  int next = 0;
  // Steps of 3 and 2 lead the begin over each place.
  for (int turn = 0; turn < 40; ++turn) {
    while (model.size() < kLimit) {
      queue.push(next);
      model.push_back(next++);
    }
    const std::size_t taken = turn % 2 == 0 ? 3 : 2;
    queue.pop(taken);
    model.erase(model.begin(), model.begin() + static_cast<std::ptrdiff_t>(taken));
    ASSERT_EQ(queue.size(), model.size());
    for (std::size_t i = 0; i < model.size(); ++i) {
      ASSERT_EQ(queue.at(i), model[i]);
    }
  }
}

TEST(BoundedQueue, IsOfUseAgainOnceCleared) {
  BoundedQueue<int> queue(3);
  for (const int value : {1, 2, 3}) {
    queue.push(value);
  }
  queue.clear();
  EXPECT_TRUE(queue.empty());
  for (const int value : {4, 5, 6}) {
    queue.push(value);
  }
  EXPECT_EQ(queue.front(), 4);
  EXPECT_EQ(queue.at(2), 6);
}

}  // namespace
}  // namespace rockhopper::ami
