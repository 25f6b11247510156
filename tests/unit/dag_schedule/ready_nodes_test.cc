// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The nodes that are ready at a worker: those in its deques, set aside, and without room.
#include "apps/services/dag/schedule/ready_nodes.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace rockhopper::dag::ready_nodes_test {
namespace {

constexpr DequeLayout kLayout{.capacity = 16};

DequeEntry entry_of(NodeIndex node, std::uint8_t run = 0) {
  return {.address = std::uint64_t{node} * 256 + 64, .length = 256, .node = node, .run = run};
}

class ReadyNodesTest : public ::testing::Test {
 protected:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  void push(NodeIndex node, unsigned priority = 1, std::uint8_t run = 0) {
    nodes_.push({.priority = priority, .entry = entry_of(node, run)});
  }
  void set_aside(NodeIndex node, unsigned priority = 1) {
    nodes_.set_aside({.priority = priority, .entry = entry_of(node)});
  }
  /// All that the owner gets, in that order.
  std::vector<NodeIndex> pop_all() {
    std::vector<NodeIndex> popped;
    while (const auto ready = nodes_.pop()) {
      popped.push_back(ready->entry.node);
    }
    return popped;
  }
  /// A thief takes the oldest entry of a class.
  void steal(unsigned priority) {
    auto* top =
        reinterpret_cast<std::uint64_t*>(lines_[0].bytes + DequeLayout::top_offset(priority));
    ++*top;
  }

  std::vector<Line> lines_ = std::vector<Line>(kLayout.bytes() / sizeof(Line));
  WorkerCounters counters_;
  ReadyNodes nodes_{{lines_[0].bytes, kLayout.bytes()}, kLayout, counters_};
};

using Nodes = std::vector<NodeIndex>;

TEST_F(ReadyNodesTest, TheMostUrgentClassComesFirstItsYoungestNodeBefore) {
  push(1, 2);
  push(2, 0);
  push(3, 2);
  push(4, 0);
  EXPECT_EQ(pop_all(), (Nodes{4, 2, 3, 1}));
  EXPECT_TRUE(nodes_.is_exhausted());
}

TEST_F(ReadyNodesTest, WhatWasSetAsideIsNotPoppedAgain) {
  push(1);
  push(2);
  set_aside(nodes_.pop()->entry.node);
  EXPECT_EQ(nodes_.pop()->entry.node, 1u);
  EXPECT_FALSE(nodes_.pop());
  EXPECT_TRUE(nodes_.is_exhausted());
}

TEST_F(ReadyNodesTest, WhatWasSetAsideStandsAtTheTopForOthers) {
  push(1);
  set_aside(2);
  push(3);
  steal(1);
  EXPECT_EQ(pop_all(), (Nodes{3, 1})) << "the thief has got node 2";
}

TEST_F(ReadyNodesTest, WhatWasSetAsideCanBeReconsidered) {
  set_aside(1);
  set_aside(2);
  ASSERT_TRUE(nodes_.is_exhausted());
  nodes_.reconsider();
  EXPECT_FALSE(nodes_.is_exhausted());
  EXPECT_EQ(pop_all().size(), 2u);
}

// Behind something new, all of the class is looked at again.
TEST_F(ReadyNodesTest, SomethingNewMakesItWorthALook) {
  set_aside(1);
  push(2);
  EXPECT_FALSE(nodes_.is_exhausted());
  EXPECT_EQ(nodes_.pop()->entry.node, 2u);
  EXPECT_FALSE(nodes_.is_exhausted());
}

TEST_F(ReadyNodesTest, ClassesAreSetAsideByThemselves) {
  set_aside(1, 0);
  push(2, 3);
  EXPECT_EQ(pop_all(), Nodes{2});
}

TEST_F(ReadyNodesTest, WhatHasNoRoomWaits) {
  for (NodeIndex node = 0; node < kLayout.capacity + 2; ++node) {
    push(node);
  }
  EXPECT_EQ(counters_.overflowed.value(), 2u);
  EXPECT_EQ(pop_all().size(), kLayout.capacity);
  EXPECT_FALSE(nodes_.is_exhausted()) << "two wait";
  nodes_.refill();
  EXPECT_EQ(pop_all(), (Nodes{kLayout.capacity, kLayout.capacity + 1}));
  EXPECT_TRUE(nodes_.is_exhausted());
}

TEST_F(ReadyNodesTest, ARefillEndsWhenTheDequeIsFull) {
  for (NodeIndex node = 0; node < kLayout.capacity + 3; ++node) {
    push(node);
  }
  ASSERT_TRUE(nodes_.pop());
  nodes_.refill();
  EXPECT_EQ(pop_all().size(), kLayout.capacity);
  nodes_.refill();
  EXPECT_EQ(pop_all().size(), 2u);
}

TEST_F(ReadyNodesTest, ARunThatHasEndedIsForgotten) {
  push(1, 0, 5);
  push(2, 0, 6);
  push(3, 2, 5);
  for (NodeIndex node = 10; node < 10 + kLayout.capacity; ++node) {
    push(node, 1, 6);
  }
  push(4, 1, 5);
  push(5, 1, 6);
  nodes_.remove_run(5);
  Nodes left = pop_all();
  EXPECT_EQ(left.size(), 1 + kLayout.capacity);
  nodes_.refill();
  EXPECT_EQ(pop_all(), Nodes{5});
}

}  // namespace
}  // namespace rockhopper::dag::ready_nodes_test
