// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/graph/graph_builder.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace rockhopper::dag {

NodeIndex GraphBuilder::add_node(const NodeSpec& node) {
  nodes_.push_back({std::string(node.key), node.work_ns, node.priority, 0});
  return static_cast<NodeIndex>(nodes_.size() - 1);
}

void GraphBuilder::add_task(NodeIndex node, TaskKind kind, FunctionId function,
                            std::span<const std::byte> arguments) {
  ++nodes_[node].tasks;
  tasks_.push_back({node, kind, function, arguments_.size(), arguments.size()});
  arguments_.insert(arguments_.end(), arguments.begin(), arguments.end());
}

void GraphBuilder::add_function(NodeIndex node, FunctionId function,
                                std::span<const std::byte> arguments) {
  add_task(node, TaskKind::function, function, arguments);
}

void GraphBuilder::add_command(NodeIndex node, std::span<const std::string_view> words) {
  add_task(node, TaskKind::command, {}, emit_command(words));
}

void GraphBuilder::add_edge(NodeIndex from, NodeIndex to, const EdgeConstraints& constraints) {
  edges_.push_back({from, {to, constraints}});
}

void GraphBuilder::add_edge(std::string_view from, std::string_view to,
                            const EdgeConstraints& constraints) {
  named_edges_.push_back({std::string(from), std::string(to), constraints});
}

Expected<void> GraphBuilder::resolve_names() {
  if (named_edges_.empty()) return {};
  std::unordered_map<std::string_view, NodeIndex> nodes;
  nodes.reserve(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    nodes.emplace(nodes_[i].key, static_cast<NodeIndex>(i));
  }
  for (const NamedEdge& edge : named_edges_) {
    NodeIndex ends[2] = {};
    for (const bool second : {false, true}) {
      const std::string& key = second ? edge.to : edge.from;
      const auto found = nodes.find(key);
      if (found == nodes.end()) {
        return fail(ErrorCode::invalid_argument, "edge {} -> {}: there is no node {}",
                    key_text(edge.from), key_text(edge.to), key_text(key));
      }
      ends[second] = found->second;
    }
    add_edge(ends[0], ends[1], edge.constraints);
  }
  named_edges_.clear();
  return {};
}

Expected<GraphParts> GraphBuilder::parts(const GraphLimits& limits) {
  GraphParts parts;
  // What Graph::make counts in 32 bits.
  for (const BuiltNode& node : nodes_) {
    if (node.key.size() > limits.key_bytes) {
      return fail(ErrorCode::invalid_argument, "the key {} has {} bytes; the limit is {}",
                  key_text(node.key), node.key.size(), limits.key_bytes);
    }
    if (node.tasks == 0) {
      return fail(ErrorCode::invalid_argument, "node {} has no task", key_text(node.key));
    }
    parts.nodes.push_back({.work_ns = node.work_ns,
                           .priority = node.priority,
                           .edges = 0,
                           .tasks = node.tasks,
                           .key_bytes = static_cast<std::uint32_t>(node.key.size())});
    const auto key = std::as_bytes(std::span(node.key));
    parts.strings.insert(parts.strings.end(), key.begin(), key.end());
  }
  std::stable_sort(tasks_.begin(), tasks_.end(),
                   [](const BuiltTask& a, const BuiltTask& b) { return a.node < b.node; });
  for (const BuiltTask& task : tasks_) {
    if (task.bytes > limits.arguments_bytes) {
      return fail(ErrorCode::invalid_argument,
                  "node {}: a task's arguments have {} bytes; the limit is {}",
                  key_text(nodes_[task.node].key), task.bytes, limits.arguments_bytes);
    }
    parts.tasks.push_back({task.kind, task.function, static_cast<std::uint32_t>(task.bytes)});
    const auto from = arguments_.begin() + static_cast<std::ptrdiff_t>(task.first_byte);
    parts.strings.insert(parts.strings.end(), from, from + static_cast<std::ptrdiff_t>(task.bytes));
  }
  std::sort(edges_.begin(), edges_.end(), [](const BuiltEdge& a, const BuiltEdge& b) {
    return a.from != b.from ? a.from < b.from : a.edge.to < b.edge.to;
  });
  for (const BuiltEdge& edge : edges_) {
    if (edge.from >= nodes_.size()) {
      return fail(ErrorCode::invalid_argument, "edge node {} -> node {}: there are only {} nodes",
                  edge.from, edge.edge.to, nodes_.size());
    }
    ++parts.nodes[edge.from].edges;
    parts.edges.push_back(edge.edge);
  }
  return parts;
}

Expected<Graph> GraphBuilder::build(const FunctionRegistry& registry, const GraphLimits& limits) {
  ROCKHOPPER_TRY(resolve_names());
  ROCKHOPPER_TRY(auto built, parts(limits));
  return Graph::make(std::move(built), registry, limits);
}

}  // namespace rockhopper::dag
