// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>

#include "apps/services/dag/graph/digest_task.h"
#include "apps/services/dag/graph/graph_builder.h"
#include "tests/dag_graph/graph_plan.h"

namespace rockhopper::dag::test {

/// Nodes with one digest task each, and edges for data.
inline GraphBuilder simple_builder(
    std::initializer_list<std::string_view> keys,
    std::initializer_list<std::pair<std::string_view, std::string_view>> edges) {
  GraphBuilder builder;
  for (const std::string_view key : keys) {
    builder.add_function(builder.add_node({.key = key}), kDigestFunction, DigestArguments{}.emit());
  }
  for (const auto& [from, to] : edges) {
    builder.add_edge(from, to);
  }
  return builder;
}

/// What is said of a graph that is refused; empty if it is not.
inline std::string refusal(GraphBuilder builder, const GraphLimits& limits = {}) {
  const auto graph = builder.build(digest_registry(), limits);
  return graph ? "" : graph.error().message;
}

}  // namespace rockhopper::dag::test
