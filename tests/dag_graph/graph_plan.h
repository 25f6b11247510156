// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "apps/services/dag/graph/graph.h"

namespace rockhopper::dag::test {

/// A graph of digest tasks as a judge sees it: names only, nothing of the library's tables.
struct NodePlan {
  std::vector<std::uint64_t> output_bytes;  ///< of each of its tasks
  std::map<std::string, EdgeConstraints> predecessors;
  std::uint64_t work_ns = 0;
};

struct GraphPlan {
  std::uint64_t seed = 0;  ///< of the digests
  std::map<std::string, NodePlan> nodes;
};

struct RandomPlan {
  std::uint64_t seed = 0;
  std::uint32_t nodes = 1000;
  std::uint32_t edges_per_node = 3;  ///< on average
  /// From 1 on: how much more often old nodes are predecessors than new ones. With 3, a few have
  /// thousands of successors.
  double skew = 3;
  std::uint32_t tasks_max = 3;  ///< of a node
  std::uint32_t output_bytes_max = 96;
  bool constraints = true;  ///< some edges are for the order only, or wait, or have a label
};

/// A graph without a cycle. The order of the keys has nothing to do with that of the edges.
[[nodiscard]] GraphPlan random_plan(const RandomPlan& config);

/// The plan as a graph, its nodes in a random order, and the edges added by name.
[[nodiscard]] Expected<Graph> build(const GraphPlan& plan, const FunctionRegistry& registry);

/// A registry with the digest function.
[[nodiscard]] FunctionRegistry digest_registry();

}  // namespace rockhopper::dag::test
