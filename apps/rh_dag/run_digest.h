// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "apps/rh_dag/records.h"
#include "apps/services/dag/graph/graph.h"
#include "apps/services/dag/graph/sha256.h"

namespace rockhopper::apps::dag_node {

struct RunDigest {
  dag::Digest digest{};  ///< dag::GraphDigest
  std::uint64_t output_bytes = 0;
};

/// Reads the outputs of all nodes of a complete run: each node's record by its key, its output by
/// the pointer there, many at a time. `on_node` is told how many have been read. Fails with the
/// first that cannot be read.
[[nodiscard]] Expected<RunDigest> read_digest(Records& records, const dag::Graph& graph,
                                              const std::string& run,
                                              const std::function<void(std::uint64_t)>& on_node);

}  // namespace rockhopper::apps::dag_node
