// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/services/dag/graph/graph.h"

namespace rockhopper::dag {

/// The work of each node, by index: the graph's estimates, or what has been measured.
[[nodiscard]] std::vector<std::uint64_t> work_of(const Graph& graph);

/// How long it takes at least from each node's start to the end of all that depends on it, times to
/// wait included (DG-41). `work_ns` is by node; together with the
/// graph's times to wait at most kTotalTimeMaxNs.
[[nodiscard]] std::vector<std::uint64_t> path_lengths(const Graph& graph,
                                                      std::span<const std::uint64_t> work_ns);

/// What each node's urgency within its graph is; of nodes that are ready a larger one goes first.
/// The priorities that the graph gives decide, as far as it has no more than 256 different ones;
/// where they are equal, path_lengths() up to two years (DG-41).
[[nodiscard]] std::vector<std::uint64_t> urgencies(const Graph& graph,
                                                   std::span<const std::uint64_t> work_ns);

struct CriticalPath {
  std::uint64_t length_ns = 0;
  std::vector<NodeIndex> nodes;  ///< from its first node to its last one
};
/// A longest path; of several equal ones that with the lowest indices.
[[nodiscard]] CriticalPath critical_path(const Graph& graph,
                                         std::span<const std::uint64_t> work_ns);

/// How many nodes are so many edges away from the beginning, by the longest way to each.
[[nodiscard]] std::vector<std::uint32_t> level_widths(const Graph& graph);

}  // namespace rockhopper::dag
