// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/graph/critical_path.h"

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/seed.h"
#include "tests/unit/dag_graph/graph_builders.h"

namespace rockhopper::dag::test {
namespace {

using testing::ElementsAre;

Graph diamond() {
  GraphBuilder builder;
  for (const auto& [key, work] : {std::pair{"a", 10}, {"b", 20}, {"c", 5}, {"d", 1}}) {
    const auto node = builder.add_node({.key = key, .work_ns = static_cast<std::uint64_t>(work)});
    builder.add_function(node, kDigestFunction);
  }
  builder.add_edge("a", "b");
  builder.add_edge("a", "c");
  builder.add_edge("b", "d");
  builder.add_edge("c", "d", {.set = kOrderOnly | kNotBefore, .not_before_ns = 100});
  return builder.build(digest_registry()).value();
}

// DG-41: what a node's priority is within its graph; times to wait count, the order of edges not.
TEST(CriticalPath, OfADiamond) {
  const Graph graph = diamond();
  EXPECT_THAT(path_lengths(graph, work_of(graph)), ElementsAre(116, 21, 106, 1));
  const CriticalPath path = critical_path(graph, work_of(graph));
  EXPECT_EQ(path.length_ns, 116u);
  EXPECT_THAT(path.nodes, ElementsAre(0, 2, 3));
  EXPECT_THAT(level_widths(graph), ElementsAre(1, 2, 1));
}

// DG-41: priorities that are given come first, whatever the path; then the path.
TEST(CriticalPath, PrioritiesComeBeforePaths) {
  GraphBuilder builder;
  for (const auto& [key, work, priority] : {std::tuple{"long", 1000, -1},
                                            {"short", 1, INT32_MAX},
                                            {"middle", 20, 0},
                                            {"also", 30, 0}}) {
    builder.add_function(
        builder.add_node(
            {.key = key, .work_ns = static_cast<std::uint64_t>(work), .priority = priority}),
        kDigestFunction);
  }
  const Graph graph = builder.build(digest_registry()).value();
  const auto found = urgencies(graph, work_of(graph));
  EXPECT_LT(found[0], found[2]);
  EXPECT_LT(found[2], found[3]);
  EXPECT_LT(found[3], found[1]);
}

TEST(CriticalPath, FollowsWhatWasMeasured) {
  const Graph graph = diamond();
  const std::vector<std::uint64_t> measured{1, 500, 1, 1};
  const CriticalPath path = critical_path(graph, measured);
  EXPECT_EQ(path.length_ns, 502u);
  EXPECT_THAT(path.nodes, ElementsAre(0, 1, 3));
}

TEST(CriticalPath, WithoutWorkThereIsStillAPath) {
  const auto graph = simple_builder({"a", "b"}, {{"a", "b"}}).build(digest_registry());
  const CriticalPath path = critical_path(*graph, work_of(*graph));
  EXPECT_EQ(path.length_ns, 0u);
  EXPECT_THAT(path.nodes, ElementsAre(0, 1));
}

// DG-41: the same as the longest of all ways, tried one by one.
TEST(CriticalPath, IsTheLongestOfAllWays) {
  std::mt19937_64 random(rockhopper::test::seed());
  for (int round = 0; round < 50; ++round) {
    const GraphPlan plan =
        random_plan({.seed = random(), .nodes = 14, .edges_per_node = 2, .skew = 1});
    const auto graph = build(plan, digest_registry());
    ASSERT_TRUE(graph);
    const auto lengths = path_lengths(*graph, work_of(*graph));
    std::uint64_t longest = 0;
    const std::function<void(const std::string&, std::uint64_t)> walk = [&](const std::string& key,
                                                                            std::uint64_t behind) {
      const NodePlan& node = plan.nodes.at(key);
      const std::uint64_t length = behind + node.work_ns;
      EXPECT_GE(lengths[graph->find(key).value()], length);
      longest = std::max(longest, length);
      for (const auto& [from, constraints] : node.predecessors) {
        walk(from, length + constraints.not_before_ns);
      }
    };
    for (const auto& [key, node] : plan.nodes) {
      walk(key, 0);
    }
    const CriticalPath path = critical_path(*graph, work_of(*graph));
    EXPECT_EQ(path.length_ns, longest);
    EXPECT_EQ(path.length_ns, *std::max_element(lengths.begin(), lengths.end()));
    // The path that is told has that length.
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < path.nodes.size(); ++i) {
      sum += graph->work_ns(path.nodes[i]);
      if (i + 1 == path.nodes.size()) break;
      const auto edges = graph->edges_of(path.nodes[i]);
      const auto next = std::find_if(edges.begin(), edges.end(), [&](const Edge& edge) {
        return edge.to == path.nodes[i + 1];
      });
      ASSERT_NE(next, edges.end());
      sum += next->constraints.not_before_ns;
    }
    EXPECT_EQ(sum, longest);
  }
}

}  // namespace
}  // namespace rockhopper::dag::test
