// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/graph/makespan_bounds.h"

#include <functional>
#include <queue>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/dag/graph/critical_path.h"
#include "tests/support/seed.h"
#include "tests/unit/dag_graph/graph_builders.h"

namespace rockhopper::dag::test {
namespace {

TEST(MakespanBounds, OfWorkAndPath) {
  const MakespanBounds wide = makespan_bounds(1200, 10, 4);
  EXPECT_DOUBLE_EQ(wide.least, 300);
  EXPECT_DOUBLE_EQ(wide.greedy, 307.5);
  EXPECT_DOUBLE_EQ(wide.accepted, 387.5);
  const MakespanBounds deep = makespan_bounds(100, 80, 4);
  EXPECT_DOUBLE_EQ(deep.least, 80);
  const MakespanBounds alone = makespan_bounds(100, 80, 1);
  EXPECT_DOUBLE_EQ(alone.least, 100);
  EXPECT_DOUBLE_EQ(alone.greedy, 100);
}

/// How long a graph takes when each worker, when it is free, takes any node that is ready.
std::uint64_t greedy_makespan(const Graph& graph, std::uint32_t workers, std::mt19937_64& random) {
  using End = std::pair<std::uint64_t, NodeIndex>;
  std::priority_queue<End, std::vector<End>, std::greater<>> running;
  std::vector<NodeIndex> ready;
  std::vector<std::size_t> left(graph.size());
  for (NodeIndex node = 0; node < graph.size(); ++node) {
    left[node] = graph.predecessors(node).size();
    if (left[node] == 0) ready.push_back(node);
  }
  std::uint64_t now = 0;
  while (!ready.empty() || !running.empty()) {
    while (!ready.empty() && running.size() < workers) {
      std::swap(ready[random() % ready.size()], ready.back());
      running.emplace(now + graph.work_ns(ready.back()), ready.back());
      ready.pop_back();
    }
    now = running.top().first;
    for (const Edge& edge : graph.edges_of(running.top().second)) {
      if (--left[edge.to] == 0) ready.push_back(edge.to);
    }
    running.pop();
  }
  return now;
}

// DG-13: any schedule that leaves no worker idle for nothing lies between the bounds.
TEST(MakespanBounds, HoldForAnyGreedySchedule) {
  std::mt19937_64 random(rockhopper::test::seed());
  for (int round = 0; round < 30; ++round) {
    const auto graph =
        build(random_plan({.seed = random(),
                           .nodes = 200,
                           .edges_per_node = 1 + static_cast<std::uint32_t>(round) % 3,
                           .constraints = false}),
              digest_registry());
    ASSERT_TRUE(graph);
    const auto work = work_of(*graph);
    const auto path = static_cast<double>(critical_path(*graph, work).length_ns);
    double sum = 0;
    for (const std::uint64_t ns : work) {
      sum += static_cast<double>(ns);
    }
    for (const std::uint32_t workers : {1u, 2u, 3u, 8u, 64u}) {
      const MakespanBounds bounds = makespan_bounds(sum, path, workers);
      const auto makespan = static_cast<double>(greedy_makespan(*graph, workers, random));
      EXPECT_GE(makespan, bounds.least - 1e-6);
      EXPECT_LE(makespan, bounds.greedy + 1e-6);
      EXPECT_LT(bounds.greedy, bounds.accepted);
    }
  }
}

}  // namespace
}  // namespace rockhopper::dag::test
