// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <functional>

#include "apps/rh_dag/run_log.h"
#include "apps/services/dag/graph/graph.h"
#include "apps/services/dag/graph/node_runner.h"
#include "apps/services/dag/graph/sha256.h"

namespace rockhopper::apps::dag_node {

struct LocalRun {
  dag::Digest digest{};  ///< dag::GraphDigest
  std::uint64_t passed_ns = 0;
  std::uint64_t output_bytes = 0;  ///< of all nodes
};

/// Of a graph that is run, by its estimates.
[[nodiscard]] RunHeader header_of(const dag::Graph& graph, std::string name);

/// Runs the whole graph here, one node after another: no server, no network, what other runs are
/// compared with. An output is dropped when its last successor has read it. `log` may be null;
/// `on_node` is told how many nodes have been run. Ends with the first node that fails.
[[nodiscard]] Expected<LocalRun> run_local(const dag::Graph& graph, dag::NodeRunner& runner,
                                           RunLogWriter* log,
                                           const std::function<void(std::uint64_t)>& on_node);

}  // namespace rockhopper::apps::dag_node
