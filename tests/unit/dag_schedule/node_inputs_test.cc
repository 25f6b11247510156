// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The inputs of a node, out of the cache or READ.
#include "apps/services/dag/schedule/node_inputs.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/dag/record.h"

namespace rockhopper::dag::node_inputs_test {
namespace {

constexpr std::uint64_t kRun = 3;

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class NodeInputsTest : public ::testing::Test {
 protected:
  NodeInputsTest() {
    node_.predecessors = {
        {.node = 10, .constraints = {.set = kData}, .key = "a"},
        {.node = 11, .constraints = {.set = kOrderOnly}, .key = "b"},
        {.node = 12, .constraints = {.set = kData | kAffinity}, .key = "c"},
    };
  }
  /// The inputs as tasks see them: KEY=OUTPUT.
  std::vector<std::string> seen() {
    std::vector<std::string> all;
    for (const TaskInput& input : inputs_.for_tasks()) {
      all.push_back(std::string(input.key) + '=' + text(input.bytes));
    }
    return all;
  }

  NodeView node_;
  OutputCache cache_;
  NodeInputs inputs_;
};

using Seen = std::vector<std::string>;

TEST_F(NodeInputsTest, AreThoseOfPredecessorsByData) {
  inputs_.begin(node_, kRun, cache_);
  ASSERT_EQ(inputs_.size(), 2u);
  EXPECT_EQ(inputs_.cached(), 0u);
  EXPECT_EQ(inputs_.source(1).node, 12u);
  inputs_.take(1, bytes_of("two"));
  inputs_.take(0, bytes_of("one"));
  EXPECT_EQ(seen(), (Seen{"a=one", "c=two"}));
}

TEST_F(NodeInputsTest, WhatIsInTheCacheNeedNotBeRead) {
  cache_.insert(kRun, 12, bytes_of("known"));
  cache_.insert(kRun + 1, 10, bytes_of("of another run"));
  inputs_.begin(node_, kRun, cache_);
  EXPECT_EQ(inputs_.cached(), 1u);
  EXPECT_FALSE(inputs_.is_cached(0));
  EXPECT_TRUE(inputs_.is_cached(1));
  inputs_.take(0, bytes_of("read"));
  EXPECT_EQ(seen(), (Seen{"a=read", "c=known"}));
}

TEST_F(NodeInputsTest, WhatWasReadIsInTheCacheThen) {
  inputs_.begin(node_, kRun, cache_);
  inputs_.take(0, bytes_of("one"));
  inputs_.take(1, bytes_of("two"));
  inputs_.fill(cache_, kRun);
  inputs_.begin(node_, kRun, cache_);
  EXPECT_EQ(inputs_.cached(), 2u);
  EXPECT_EQ(seen(), (Seen{"a=one", "c=two"}));
}

TEST_F(NodeInputsTest, TheNextNodeBeginsAnew) {
  inputs_.begin(node_, kRun, cache_);
  inputs_.fail(Status::not_found);
  EXPECT_EQ(inputs_.status(), Status::not_found);
  node_.predecessors.pop_back();
  inputs_.begin(node_, kRun, cache_);
  EXPECT_EQ(inputs_.status(), Status::ok);
  EXPECT_EQ(inputs_.size(), 1u);
  inputs_.take(0, bytes_of("x"));
  EXPECT_EQ(seen(), Seen{"a=x"});
}

TEST_F(NodeInputsTest, LargeMemoryIsGivenBack) {
  const std::string large(1000, 'x');
  inputs_.begin(node_, kRun, cache_);
  inputs_.take(0, bytes_of(large));
  inputs_.trim(1000);
  EXPECT_EQ(inputs_.for_tasks()[0].bytes.size(), 1000u);
  inputs_.trim(999);
  EXPECT_TRUE(inputs_.for_tasks()[0].bytes.empty());
}

}  // namespace
}  // namespace rockhopper::dag::node_inputs_test
