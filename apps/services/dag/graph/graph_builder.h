// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/services/dag/graph/graph.h"

namespace rockhopper::dag {

/// Collects a graph in any order; build() then checks all of it at once. Not after build().
class GraphBuilder {
 public:
  struct NodeSpec {
    std::string_view key;
    std::uint64_t work_ns = 0;
    std::int32_t priority = 0;
  };

  /// The node's index: nodes are counted from 0 in the order in which they are added.
  NodeIndex add_node(const NodeSpec& node);
  /// Behind the tasks that the node has. `node` must have been added.
  void add_function(NodeIndex node, FunctionId function, std::span<const std::byte> arguments = {});
  void add_command(NodeIndex node, std::span<const std::string_view> words);

  void add_edge(NodeIndex from, NodeIndex to, const EdgeConstraints& constraints = {});
  /// The nodes may come later.
  void add_edge(std::string_view from, std::string_view to,
                const EdgeConstraints& constraints = {});

  /// As Graph::make.
  [[nodiscard]] Expected<Graph> build(const FunctionRegistry& registry,
                                      const GraphLimits& limits = {});

 private:
  struct BuiltNode {
    std::string key;
    std::uint64_t work_ns;
    std::int32_t priority;
    std::uint32_t tasks;
  };
  struct BuiltTask {
    NodeIndex node;
    TaskKind kind;
    FunctionId function;
    std::uint64_t first_byte;
    std::uint64_t bytes;
  };
  struct BuiltEdge {
    NodeIndex from;
    Edge edge;
  };
  struct NamedEdge {
    std::string from;
    std::string to;
    EdgeConstraints constraints;
  };

  void add_task(NodeIndex node, TaskKind kind, FunctionId function,
                std::span<const std::byte> arguments);
  [[nodiscard]] Expected<void> resolve_names();
  [[nodiscard]] Expected<GraphParts> parts(const GraphLimits& limits);

  std::vector<BuiltNode> nodes_;
  std::vector<BuiltTask> tasks_;
  std::vector<std::byte> arguments_;
  std::vector<BuiltEdge> edges_;
  std::vector<NamedEdge> named_edges_;
};

}  // namespace rockhopper::dag
