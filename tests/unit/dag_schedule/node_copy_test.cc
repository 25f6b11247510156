// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What a worker believes of a node's record that it has READ.
#include "apps/services/dag/schedule/node_copy.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/dag_graph/graph_plan.h"

namespace rockhopper::dag::test::node_copy_test {
namespace {

constexpr std::uint64_t kAddress = 640;
constexpr std::uint64_t kIncarnation = 17;
constexpr std::uint64_t kStoreBytes = 1 << 20;

/// Two nodes, one behind the other, as records in the memory of a home.
class NodeCopyTest : public ::testing::Test {
 protected:
  NodeCopyTest() {
    GraphPlan plan;
    plan.nodes["a"] = {.output_bytes = {8}};
    plan.nodes["b"] = {.output_bytes = {8}, .predecessors = {{"a", {}}}};
    const FunctionRegistry registry = digest_registry();
    const Graph graph = *build(plan, registry);
    NodeRecords records = *NodeRecords::create(graph, "run");
    records.set_place(kAddress, kIncarnation);
    memory_.resize(kAddress + records.bytes());
    for (NodeIndex node = 0; node < graph.size(); ++node) {
      const MapPlace place = records.place(node);
      records.compose(node, std::span(memory_).subspan(place.address, place.length));
      entries_.push_back({.address = place.address, .length = place.length, .node = node});
      keys_.push_back(records.key(node));
    }
    run_ = {.id = 1,
            .phase = RunPhase::running,
            .nodes = 2,
            .first_incarnation = kIncarnation,
            .records_address = kAddress,
            .records_bytes = records.bytes(),
            .name = "run"};
  }
  /// The record of that node is what `entry` leads to.
  [[nodiscard]] bool parses(NodeIndex node, const DequeEntry& entry) {
    WorkerRuns runs(kStoreBytes);
    (void)runs.follow({run_});
    return copy_.parse(std::span(memory_).subspan(entries_[node].address, entries_[node].length),
                       entry, runs);
  }
  [[nodiscard]] bool parses(NodeIndex node) { return parses(node, entries_[node]); }

  std::vector<std::byte> memory_;
  std::vector<DequeEntry> entries_;
  std::vector<std::string> keys_;
  BoardView::Run run_;
  NodeCopy copy_;
};

TEST_F(NodeCopyTest, HasTheNodeAndItsNames) {
  for (NodeIndex node = 0; node < 2; ++node) {
    ASSERT_TRUE(parses(node));
    EXPECT_EQ(copy_.node().node, node);
    EXPECT_EQ(copy_.run_name(), "run");
    EXPECT_EQ(copy_.record_key(), keys_[node]);
    EXPECT_EQ("run/" + std::string(copy_.key()), keys_[node]);
  }
}

TEST_F(NodeCopyTest, IsNotAnotherNode) {
  DequeEntry entry = entries_[1];
  entry.node = 0;
  EXPECT_FALSE(parses(1, entry));
}

TEST_F(NodeCopyTest, IsNotAnotherRunsNode) {
  run_.first_incarnation = kIncarnation + 100;
  EXPECT_FALSE(parses(1)) << "the incarnation is an earlier run's";
  run_.first_incarnation = kIncarnation;
  run_.name = "ran";
  EXPECT_FALSE(parses(1));
  run_.name = "ru";
  EXPECT_FALSE(parses(1));
}

TEST_F(NodeCopyTest, IsNotDamaged) {
  memory_[entries_[1].address + entries_[1].length - 64] ^= std::byte{1};
  EXPECT_FALSE(parses(1));
  EXPECT_TRUE(parses(0));
}

// Where a record leads, a worker does atomics: only to the run's own records. Of these two, one
// leads to its successor and one to its predecessor.
TEST_F(NodeCopyTest, LeadsToNothingOutsideOfTheRun) {
  run_.records_bytes = entries_[1].address - kAddress;
  EXPECT_FALSE(parses(0)) << "its neighbour is beyond the run's end";
  run_.records_address = entries_[1].address;
  run_.records_bytes = entries_[1].length;
  EXPECT_FALSE(parses(1)) << "its neighbour is before the run's begin";
}

}  // namespace
}  // namespace rockhopper::dag::test::node_copy_test
