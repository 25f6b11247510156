// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "apps/services/dag/graph/edge.h"
#include "apps/services/dag/graph/function_registry.h"
#include "apps/services/dag/graph/graph_limits.h"
#include "apps/services/dag/graph/task.h"

namespace rockhopper::dag {

/// A graph as tables, as it is built and as it is sent: nothing of it has been checked.
struct GraphParts {
  struct Node {
    std::uint64_t work_ns = 0;  ///< an estimate of how long its tasks take together; 0: not known
    std::int32_t priority = 0;  ///< larger is more urgent
    std::uint32_t edges = 0;    ///< to successors
    std::uint32_t tasks = 0;
    std::uint32_t key_bytes = 0;
  };
  struct Task {
    TaskKind kind = TaskKind::function;
    FunctionId function{};
    std::uint32_t arguments_bytes = 0;
  };
  std::vector<Node> nodes;
  std::vector<Task> tasks;         ///< of the first node, of the second...
  std::vector<Edge> edges;         ///< the same; those of a node in the order of `to`
  std::vector<std::byte> strings;  ///< all nodes' keys, then all tasks' arguments
};

/// An edge as its successor has it.
struct Predecessor {
  NodeIndex from = 0;
  std::uint32_t edge = 0;  ///< Graph::edge()
};

/// A directed acyclic graph of tasks (DG-1, DG-2, DG-3), checked, and not changed any more. Tables
/// indexed by node: a million nodes with two edges each take about 170 MB.
class Graph {
 public:
  /// The one way to a graph. Refuses, with one line that says what and where: limits, a key that is
  /// empty or there twice, edges to no node, edges that are there twice, wrong constraints,
  /// functions that are not known (DG-42), and cycles, with the names of their nodes (DG-33).
  [[nodiscard]] static Expected<Graph> make(GraphParts parts, const FunctionRegistry& registry,
                                            const GraphLimits& limits = {});

  [[nodiscard]] NodeIndex size() const { return static_cast<NodeIndex>(parts_.nodes.size()); }
  [[nodiscard]] std::uint32_t edges() const {
    return static_cast<std::uint32_t>(parts_.edges.size());
  }
  [[nodiscard]] std::uint32_t tasks() const {
    return static_cast<std::uint32_t>(parts_.tasks.size());
  }

  [[nodiscard]] std::string_view key(NodeIndex node) const;
  [[nodiscard]] std::uint64_t work_ns(NodeIndex node) const { return parts_.nodes[node].work_ns; }
  [[nodiscard]] std::int32_t priority(NodeIndex node) const { return parts_.nodes[node].priority; }
  [[nodiscard]] std::uint32_t tasks_of(NodeIndex node) const { return parts_.nodes[node].tasks; }
  /// `index` below tasks_of(node); tasks run in this order.
  [[nodiscard]] Task task(NodeIndex node, std::uint32_t index) const;

  [[nodiscard]] std::span<const Edge> edges_of(NodeIndex node) const;
  [[nodiscard]] const Edge& edge(std::uint32_t index) const { return parts_.edges[index]; }
  /// In the order of their keys.
  [[nodiscard]] std::span<const Predecessor> predecessors(NodeIndex node) const;

  [[nodiscard]] std::optional<NodeIndex> find(std::string_view wanted) const;
  /// All nodes in the order of their keys.
  [[nodiscard]] std::span<const NodeIndex> by_key() const { return by_key_; }
  /// Each node behind its predecessors.
  [[nodiscard]] std::span<const NodeIndex> topological_order() const { return order_; }

  [[nodiscard]] const GraphParts& parts() const { return parts_; }

 private:
  Graph() = default;
  friend class GraphMaker;

  GraphParts parts_;
  // Where what belongs to a node begins; one more entry says where that of the last one ends.
  std::vector<std::uint64_t> first_key_byte_;
  std::vector<std::uint32_t> first_task_;
  std::vector<std::uint32_t> first_edge_;
  std::vector<std::uint32_t> first_predecessor_;
  std::vector<std::uint64_t> first_argument_;  // by task
  std::vector<Predecessor> predecessors_;
  std::vector<NodeIndex> by_key_;
  std::vector<NodeIndex> order_;
};

}  // namespace rockhopper::dag
