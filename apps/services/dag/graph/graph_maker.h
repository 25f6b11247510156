// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>
#include <vector>

#include "apps/services/dag/graph/graph.h"

namespace rockhopper::dag {

/// Checks parts and makes a graph of them: see Graph::make. Each step relies on those before it.
class GraphMaker {
 public:
  GraphMaker(GraphParts parts, const FunctionRegistry& registry, const GraphLimits& limits);
  [[nodiscard]] Expected<Graph> make();

 private:
  [[nodiscard]] Expected<void> check_limits() const;
  [[nodiscard]] Expected<void> divide();
  [[nodiscard]] Expected<void> sort_keys();
  [[nodiscard]] Expected<void> check_edges() const;
  [[nodiscard]] Expected<void> check_tasks() const;
  [[nodiscard]] Expected<void> check_times() const;
  void join_predecessors();
  [[nodiscard]] Expected<void> check_affinities() const;
  [[nodiscard]] Expected<void> sort_topologically();

  [[nodiscard]] std::string name(NodeIndex node) const { return key_text(graph_.key(node)); }
  /// The nodes of a cycle among those that have predecessors `left`.
  [[nodiscard]] std::vector<NodeIndex> find_cycle(const std::vector<std::uint32_t>& left) const;

  Graph graph_;
  const FunctionRegistry& registry_;
  const GraphLimits& limits_;
};

}  // namespace rockhopper::dag
