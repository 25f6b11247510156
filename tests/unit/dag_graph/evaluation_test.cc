// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// A graph run in the library's order gives what the judge reckons in its own; any mistake on the
// way gives something else.
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/dag/graph/digest_task.h"
#include "apps/services/dag/graph/node_runner.h"
#include "tests/dag_graph/graph_plan.h"
#include "tests/dag_graph/sequential_evaluator.h"
#include "tests/support/seed.h"

namespace rockhopper::dag::test::evaluation_test {
namespace {

using Bytes = std::vector<std::byte>;

/// Runs the nodes in the given order. `lost`: an edge whose successor does without its input.
std::string run(const Graph& graph, std::span<const NodeIndex> order,
                std::optional<std::uint32_t> lost = std::nullopt) {
  const FunctionRegistry registry = digest_registry();
  NodeRunner runner(registry);
  std::vector<Bytes> outputs(graph.size());
  for (const NodeIndex node : order) {
    std::vector<TaskInput> inputs;
    for (const Predecessor& predecessor : graph.predecessors(node)) {
      if ((graph.edge(predecessor.edge).constraints.set & kData) == 0) continue;
      if (predecessor.edge == lost) continue;
      inputs.push_back({graph.key(predecessor.from), outputs[predecessor.from]});
    }
    const auto done = runner.run(graph, node, inputs, outputs[node]);
    EXPECT_TRUE(done) << done.error().message;
  }
  GraphDigest digest;
  Sha256 sha256;
  for (const NodeIndex node : graph.by_key()) {
    sha256.add(outputs[node]);
    digest.add(graph.key(node), sha256.finish());
  }
  return to_hex(digest.finish());
}

// DG-1, DG-2, DG-3, DG-10: 100,000 nodes with skewed degrees.
TEST(Evaluation, OfALargeGraphIsTheJudges) {
  const GraphPlan plan = random_plan({.seed = rockhopper::test::seed(), .nodes = 100'000});
  const auto graph = build(plan, digest_registry());
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(run(*graph, graph->topological_order()), evaluate(plan));
}

// DG-10: a task too early, or one input less, does not pass unnoticed.
TEST(Evaluation, MistakesChangeTheDigest) {
  std::mt19937_64 random(rockhopper::test::seed());
  for (int round = 0; round < 20; ++round) {
    const GraphPlan plan = random_plan({.seed = random(), .nodes = 50, .skew = 1});
    const auto graph = build(plan, digest_registry());
    ASSERT_TRUE(graph);
    const auto right = graph->topological_order();
    const std::string wanted = evaluate(plan);
    EXPECT_EQ(run(*graph, right), wanted);
    std::vector<NodeIndex> order(right.begin(), right.end());
    for (std::uint32_t edge = 0; edge < graph->edges(); ++edge) {
      if ((graph->edge(edge).constraints.set & kData) == 0) continue;
      EXPECT_NE(run(*graph, order, edge), wanted);
      // The successor of this edge first of all.
      const NodeIndex early = graph->edge(edge).to;
      std::vector<NodeIndex> wrong{early};
      for (const NodeIndex node : order) {
        if (node != early) wrong.push_back(node);
      }
      EXPECT_NE(run(*graph, wrong), wanted);
      break;
    }
  }
}

}  // namespace
}  // namespace rockhopper::dag::test::evaluation_test
