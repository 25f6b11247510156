// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/graph/graph_maker.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace rockhopper::dag {
namespace {

/// Of a list of counts: where each one's share begins, and the end.
template <typename Sum, typename Items, typename Count>
std::vector<Sum> begins_of(const Items& items, Sum first, Count count) {
  std::vector<Sum> begins;
  begins.reserve(items.size() + 1);
  begins.push_back(first);
  for (const auto& item : items) {
    begins.push_back(begins.back() + count(item));
  }
  return begins;
}

Expected<void> check_limit(const char* what, std::uint64_t count, std::uint64_t most) {
  if (count <= most) return {};
  return fail(ErrorCode::exhausted, "the graph has {} {}; the limit is {}", count, what, most);
}

}  // namespace

GraphMaker::GraphMaker(GraphParts parts, const FunctionRegistry& registry,
                       const GraphLimits& limits)
    : registry_(registry), limits_(limits) {
  graph_.parts_ = std::move(parts);
}

Expected<Graph> GraphMaker::make() {
  ROCKHOPPER_TRY(check_limits());
  ROCKHOPPER_TRY(divide());
  ROCKHOPPER_TRY(sort_keys());
  ROCKHOPPER_TRY(check_edges());
  ROCKHOPPER_TRY(check_tasks());
  ROCKHOPPER_TRY(check_times());
  join_predecessors();
  ROCKHOPPER_TRY(check_affinities());
  ROCKHOPPER_TRY(sort_topologically());
  return std::move(graph_);
}

Expected<void> GraphMaker::check_limits() const {
  const GraphParts& parts = graph_.parts_;
  if (parts.nodes.empty()) return fail(ErrorCode::invalid_argument, "the graph has no nodes");
  auto within = check_limit("nodes", parts.nodes.size(), limits_.nodes);
  if (within) within = check_limit("edges", parts.edges.size(), limits_.edges);
  if (within) within = check_limit("tasks", parts.tasks.size(), limits_.tasks);
  if (within) {
    within =
        check_limit("bytes of keys and arguments", parts.strings.size(), limits_.strings_bytes);
  }
  return within;
}

Expected<void> GraphMaker::divide() {
  const GraphParts& parts = graph_.parts_;
  // Sums of 2^32 numbers below 2^32 at most.
  std::uint64_t edges = 0;
  std::uint64_t tasks = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < parts.nodes.size(); ++i) {
    const GraphParts::Node& node = parts.nodes[i];
    if (node.key_bytes == 0 || node.key_bytes > limits_.key_bytes) {
      return fail(ErrorCode::invalid_argument,
                  "node {}: its key has {} bytes, and may have 1 to {}", i, node.key_bytes,
                  limits_.key_bytes);
    }
    if (node.tasks == 0 || node.tasks > limits_.tasks_of_node) {
      return fail(ErrorCode::invalid_argument, "node {}: it has {} tasks, and may have 1 to {}", i,
                  node.tasks, limits_.tasks_of_node);
    }
    edges += node.edges;
    tasks += node.tasks;
    bytes += node.key_bytes;
  }
  for (std::size_t i = 0; i < parts.tasks.size(); ++i) {
    if (parts.tasks[i].arguments_bytes > limits_.arguments_bytes) {
      return fail(ErrorCode::invalid_argument,
                  "task {}: its arguments have {} bytes, the limit is {}", i,
                  parts.tasks[i].arguments_bytes, limits_.arguments_bytes);
    }
    bytes += parts.tasks[i].arguments_bytes;
  }
  if (edges != parts.edges.size() || tasks != parts.tasks.size() || bytes != parts.strings.size()) {
    return fail(ErrorCode::invalid_argument,
                "the nodes' edges, tasks or bytes are not as many as the graph has");
  }
  graph_.first_key_byte_ = begins_of(parts.nodes, std::uint64_t{0},
                                     [](const GraphParts::Node& node) { return node.key_bytes; });
  graph_.first_task_ = begins_of(parts.nodes, std::uint32_t{0},
                                 [](const GraphParts::Node& node) { return node.tasks; });
  graph_.first_edge_ = begins_of(parts.nodes, std::uint32_t{0},
                                 [](const GraphParts::Node& node) { return node.edges; });
  graph_.first_argument_ =
      begins_of(parts.tasks, graph_.first_key_byte_.back(),
                [](const GraphParts::Task& task) { return task.arguments_bytes; });
  return {};
}

Expected<void> GraphMaker::sort_keys() {
  auto& by_key = graph_.by_key_;
  by_key.resize(graph_.size());
  std::iota(by_key.begin(), by_key.end(), NodeIndex{0});
  std::sort(by_key.begin(), by_key.end(),
            [this](NodeIndex a, NodeIndex b) { return graph_.key(a) < graph_.key(b); });
  const auto twice = std::adjacent_find(
      by_key.begin(), by_key.end(),
      [this](NodeIndex a, NodeIndex b) { return graph_.key(a) == graph_.key(b); });
  if (twice != by_key.end()) {
    return fail(ErrorCode::invalid_argument, "there are two nodes with the key {}", name(*twice));
  }
  return {};
}

Expected<void> GraphMaker::check_edges() const {
  for (NodeIndex from = 0; from < graph_.size(); ++from) {
    const auto edges = graph_.edges_of(from);
    for (std::size_t i = 0; i < edges.size(); ++i) {
      const NodeIndex to = edges[i].to;
      if (to >= graph_.size()) {
        return fail(ErrorCode::invalid_argument, "edge {} -> node {}: there are only {} nodes",
                    name(from), to, graph_.size());
      }
      const auto problem = problem_of(edges[i].constraints);
      if (!problem.empty()) {
        return fail(ErrorCode::invalid_argument, "edge {} -> {} {}", name(from), name(to), problem);
      }
      if (i == 0 || to > edges[i - 1].to) continue;
      return fail(ErrorCode::invalid_argument, "edge {} -> {} {}", name(from), name(to),
                  to == edges[i - 1].to ? "is there twice" : "is not in the order of the nodes");
    }
  }
  return {};
}

Expected<void> GraphMaker::check_tasks() const {
  for (NodeIndex node = 0; node < graph_.size(); ++node) {
    for (std::uint32_t i = 0; i < graph_.tasks_of(node); ++i) {
      const Task task = graph_.task(node, i);
      Expected<void> right;
      if (task.kind == TaskKind::function) {
        right = registry_.check(task.function);
      } else if (task.kind != TaskKind::command || task.function != FunctionId{}) {
        right = fail(ErrorCode::invalid_argument, "is neither a function nor a command");
      } else if (auto words = parse_command(task.arguments); !words) {
        right = tl::make_unexpected(words.error());
      }
      if (!right) {
        return fail(right.error().code, "node {}, task {}: {}", name(node), i,
                    right.error().message);
      }
    }
  }
  return {};
}

Expected<void> GraphMaker::check_times() const {
  std::uint64_t left = kTotalTimeMaxNs;
  const auto take = [&left](std::uint64_t ns) {
    const bool enough = ns <= left;
    if (enough) left -= ns;
    return enough;
  };
  for (NodeIndex node = 0; node < graph_.size(); ++node) {
    bool right = take(graph_.work_ns(node));
    for (const Edge& edge : graph_.edges_of(node)) {
      right = right && take(edge.constraints.not_before_ns);
    }
    if (!right) {
      return fail(ErrorCode::exhausted, "all work and times to wait up to node {} are over {} ns",
                  name(node), kTotalTimeMaxNs);
    }
  }
  return {};
}

void GraphMaker::join_predecessors() {
  auto& first = graph_.first_predecessor_;
  first.assign(graph_.size() + 1, 0);
  for (const Edge& edge : graph_.parts_.edges) {
    ++first[edge.to + 1];
  }
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
  graph_.predecessors_.resize(graph_.parts_.edges.size());
  // By key from one predecessor to the next, and so they are in the order of their keys.
  for (const NodeIndex from : graph_.by_key_) {
    for (std::uint32_t edge = graph_.first_edge_[from]; edge < graph_.first_edge_[from + 1];
         ++edge) {
      graph_.predecessors_[next[graph_.parts_.edges[edge].to]++] = {from, edge};
    }
  }
}

Expected<void> GraphMaker::check_affinities() const {
  for (NodeIndex node = 0; node < graph_.size(); ++node) {
    const Predecessor* same = nullptr;
    for (const Predecessor& predecessor : graph_.predecessors(node)) {
      const EdgeConstraints& constraints = graph_.edge(predecessor.edge).constraints;
      if ((constraints.set & kAffinity) == 0 || constraints.affinity != kSameWorker) continue;
      // They may have run at two workers, and then nobody could run it.
      if (same != nullptr) {
        return fail(ErrorCode::invalid_argument,
                    "node {} cannot run both where {} and where {} have run", name(node),
                    name(same->from), name(predecessor.from));
      }
      same = &predecessor;
    }
  }
  return {};
}

Expected<void> GraphMaker::sort_topologically() {
  std::vector<std::uint32_t> left(graph_.size());
  auto& order = graph_.order_;
  order.reserve(graph_.size());
  for (NodeIndex node = 0; node < graph_.size(); ++node) {
    left[node] = static_cast<std::uint32_t>(graph_.predecessors(node).size());
    if (left[node] == 0) order.push_back(node);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const Edge& edge : graph_.edges_of(order[i])) {
      if (--left[edge.to] == 0) order.push_back(edge.to);
    }
  }
  if (order.size() == graph_.size()) return {};
  const std::vector<NodeIndex> cycle = find_cycle(left);
  constexpr std::size_t kNamed = 16;
  std::string names;
  for (std::size_t i = 0; i < std::min(cycle.size(), kNamed); ++i) {
    names += name(cycle[i]) + " -> ";
  }
  if (cycle.size() > kNamed) names += fmt::format("... ({} more) -> ", cycle.size() - kNamed);
  return fail(ErrorCode::invalid_argument, "the graph has a cycle: {}{}", names,
              name(cycle.front()));
}

std::vector<NodeIndex> GraphMaker::find_cycle(const std::vector<std::uint32_t>& left) const {
  // Each node that is left has a predecessor that is left: going back comes round at some time.
  NodeIndex node = 0;
  while (left[node] == 0) {
    ++node;
  }
  std::vector<NodeIndex> way;
  std::vector<std::uint32_t> visited(graph_.size(), 0);  // place on the way, from 1 on
  while (visited[node] == 0) {
    way.push_back(node);
    visited[node] = static_cast<std::uint32_t>(way.size());
    const auto predecessors = graph_.predecessors(node);
    node = std::find_if(predecessors.begin(), predecessors.end(), [&left](const Predecessor& p) {
             return left[p.from] != 0;
           })->from;
  }
  std::vector<NodeIndex> cycle(way.begin() + (visited[node] - 1), way.end());
  std::reverse(cycle.begin(), cycle.end());
  // The same cycle is always told the same way.
  const auto least = std::min_element(cycle.begin(), cycle.end(), [this](NodeIndex a, NodeIndex b) {
    return graph_.key(a) < graph_.key(b);
  });
  std::rotate(cycle.begin(), least, cycle.end());
  return cycle;
}

}  // namespace rockhopper::dag
