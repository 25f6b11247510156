// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>
#include <string_view>

#include "apps/common/option_set.h"
#include "apps/rh_dag/workflow.h"
#include "apps/rh_dag/workflow_graph.h"
#include "apps/services/dag/graph/function_registry.h"
#include "apps/services/dag/graph/graph.h"

namespace rockhopper::apps::dag_node {

/// Where a command's graph comes from.
struct GraphSource {
  std::string workflow;  ///< a file of WfFormat; empty: random
  std::string random;    ///< see parse_random_graph()
  Replay replay;
};

/// Adds the workflow as a positional argument.
Option add_workflow_option(const OptionSet& app, GraphSource& source);
/// Adds how the workflow is replayed. `commands_help` is what --help says of --commands.
void add_replay_options(const OptionSet& app, GraphSource& source, std::string_view commands_help);

/// A graph that has been checked, and the workflow that it was made of; of a random one only the
/// name is there.
struct LoadedGraph {
  Workflow workflow;
  dag::Graph graph;
};
/// Fails unless the source has either of both.
[[nodiscard]] Expected<LoadedGraph> load_graph(const GraphSource& source,
                                               const dag::FunctionRegistry& functions);

}  // namespace rockhopper::apps::dag_node
