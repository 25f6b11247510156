// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "apps/rh_dag/workflow.h"
#include "apps/services/dag/graph/graph.h"

namespace rockhopper::apps::dag_node {

/// How a recorded workflow is to be run.
struct Replay {
  std::uint64_t seed = 1;  ///< of the digests
  double scale = 0;        ///< of recorded times: tasks compute so much of them
  double size_scale = 0;   ///< of recorded sizes: tasks write so much of them
  bool commands = false;   ///< run the recorded commands, and nothing else
};

/// What one node may leave at most, whatever was recorded.
inline constexpr std::uint64_t kOutputBytesMax = std::uint64_t{1} << 30;

/// A node for each task, known by its id. It computes for its time (functions.h), then makes a
/// digest of what it has read, expanded to the bytes of its files. Its work is what was recorded,
/// scaled. An error names the cycle, or the task whose output is too large or whose command is
/// missing.
[[nodiscard]] Expected<dag::Graph> to_graph(const Workflow& workflow, const Replay& replay,
                                            const dag::FunctionRegistry& registry);

}  // namespace rockhopper::apps::dag_node
