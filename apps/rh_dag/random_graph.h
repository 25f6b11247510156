// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string_view>

#include "apps/services/dag/graph/graph.h"

namespace rockhopper::apps::dag_node {

/// A graph of digest tasks, made by chance: the same for the same numbers, on any machine.
struct RandomGraph {
  std::uint32_t nodes = 1000;
  std::uint64_t seed = 1;     ///< of the shape and of the digests
  std::uint32_t edges = 2;    ///< to predecessors by data, of each node; fewer where they are one
  std::uint32_t width = 0;    ///< predecessors are among so many nodes before; 0: among all
  std::uint64_t bytes = 32;   ///< of each output
  std::uint64_t work_ns = 0;  ///< that each node lets pass
};

/// Reads "nodes=1000,seed=1,edges=2,width=0,bytes=32,work=10us"; what is not there is as above.
[[nodiscard]] Expected<RandomGraph> parse_random_graph(std::string_view text);

[[nodiscard]] Expected<dag::Graph> make_random_graph(const RandomGraph& random,
                                                     const dag::FunctionRegistry& registry);

}  // namespace rockhopper::apps::dag_node
