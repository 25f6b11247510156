// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/graph/graph.h"

#include <algorithm>
#include <utility>

#include "apps/services/dag/graph/graph_maker.h"

namespace rockhopper::dag {

std::string_view Graph::key(NodeIndex node) const {
  return {reinterpret_cast<const char*>(parts_.strings.data()) + first_key_byte_[node],
          parts_.nodes[node].key_bytes};
}

Task Graph::task(NodeIndex node, std::uint32_t index) const {
  const std::uint32_t at = first_task_[node] + index;
  const GraphParts::Task& task = parts_.tasks[at];
  return {task.kind, task.function,
          std::span(parts_.strings).subspan(first_argument_[at], task.arguments_bytes)};
}

std::span<const Edge> Graph::edges_of(NodeIndex node) const {
  return std::span(parts_.edges).subspan(first_edge_[node], parts_.nodes[node].edges);
}

std::span<const Predecessor> Graph::predecessors(NodeIndex node) const {
  return std::span(predecessors_)
      .subspan(first_predecessor_[node], first_predecessor_[node + 1] - first_predecessor_[node]);
}

std::optional<NodeIndex> Graph::find(std::string_view wanted) const {
  const auto found = std::lower_bound(
      by_key_.begin(), by_key_.end(), wanted,
      [this](NodeIndex node, std::string_view other) { return key(node) < other; });
  if (found == by_key_.end() || key(*found) != wanted) return std::nullopt;
  return *found;
}

Expected<Graph> Graph::make(GraphParts parts, const FunctionRegistry& registry,
                            const GraphLimits& limits) {
  return GraphMaker(std::move(parts), registry, limits).make();
}

}  // namespace rockhopper::dag
