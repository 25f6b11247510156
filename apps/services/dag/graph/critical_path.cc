// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/graph/critical_path.h"

#include <algorithm>
#include <map>
#include <set>

namespace rockhopper::dag {

std::vector<std::uint64_t> work_of(const Graph& graph) {
  std::vector<std::uint64_t> work(graph.size());
  for (NodeIndex node = 0; node < graph.size(); ++node) {
    work[node] = graph.work_ns(node);
  }
  return work;
}

std::vector<std::uint64_t> path_lengths(const Graph& graph,
                                        std::span<const std::uint64_t> work_ns) {
  std::vector<std::uint64_t> lengths(graph.size());
  const auto order = graph.topological_order();
  for (std::size_t i = order.size(); i-- > 0;) {
    const NodeIndex node = order[i];
    std::uint64_t behind = 0;
    for (const Edge& edge : graph.edges_of(node)) {
      behind = std::max(behind, edge.constraints.not_before_ns + lengths[edge.to]);
    }
    lengths[node] = work_ns[node] + behind;
  }
  return lengths;
}

std::vector<std::uint64_t> urgencies(const Graph& graph, std::span<const std::uint64_t> work_ns) {
  constexpr unsigned kLengthBits = 56;
  constexpr std::size_t kRankMax = (std::size_t{1} << (64 - kLengthBits)) - 1;
  constexpr std::uint64_t kLengthMax = (std::uint64_t{1} << kLengthBits) - 1;
  std::set<std::int32_t> priorities;
  for (NodeIndex node = 0; node < graph.size(); ++node) {
    priorities.insert(graph.priority(node));
  }
  std::map<std::int32_t, std::size_t> ranks;
  for (const std::int32_t priority : priorities) {
    ranks.emplace(priority, std::min(ranks.size(), kRankMax));
  }
  auto urgencies = path_lengths(graph, work_ns);
  for (NodeIndex node = 0; node < graph.size(); ++node) {
    urgencies[node] = std::uint64_t{ranks.at(graph.priority(node))} << kLengthBits |
                      std::min(urgencies[node], kLengthMax);
  }
  return urgencies;
}

CriticalPath critical_path(const Graph& graph, std::span<const std::uint64_t> work_ns) {
  const auto lengths = path_lengths(graph, work_ns);
  auto node = static_cast<NodeIndex>(
      std::distance(lengths.begin(), std::max_element(lengths.begin(), lengths.end())));
  CriticalPath path{.length_ns = lengths[node], .nodes = {node}};
  for (;;) {
    const auto edges = graph.edges_of(node);
    const auto next = std::find_if(edges.begin(), edges.end(), [&](const Edge& edge) {
      return work_ns[node] + edge.constraints.not_before_ns + lengths[edge.to] == lengths[node];
    });
    if (next == edges.end()) return path;
    node = next->to;
    path.nodes.push_back(node);
  }
}

std::vector<std::uint32_t> level_widths(const Graph& graph) {
  std::vector<std::uint32_t> levels(graph.size(), 0);
  std::vector<std::uint32_t> widths;
  for (const NodeIndex node : graph.topological_order()) {
    if (levels[node] >= widths.size()) widths.resize(levels[node] + 1, 0);
    ++widths[levels[node]];
    for (const Edge& edge : graph.edges_of(node)) {
      levels[edge.to] = std::max(levels[edge.to], levels[node] + 1);
    }
  }
  return widths;
}

}  // namespace rockhopper::dag
