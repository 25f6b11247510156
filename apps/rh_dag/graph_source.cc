// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/graph_source.h"

#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "apps/rh_dag/random_graph.h"
#include "apps/rh_dag/wfformat.h"

namespace rockhopper::apps::dag_node {

Option add_workflow_option(const OptionSet& app, GraphSource& source) {
  return app.add_option("workflow FILE", source.workflow, "a workflow of WfFormat, up to 1.6");
}

void add_replay_options(const OptionSet& app, GraphSource& source, std::string_view commands_help) {
  app.add_option("--scale X", source.replay.scale,
                 "tasks compute for their recorded times, times this")
      .range(0.0, 1000.0);
  app.add_option("--size-scale X", source.replay.size_scale,
                 "tasks write files of their recorded sizes, times this; a digest at least")
      .range(0.0, 1000.0);
  app.add_flag("--commands", source.replay.commands, commands_help);
}

Expected<LoadedGraph> load_graph(const GraphSource& source,
                                 const dag::FunctionRegistry& functions) {
  if (source.workflow.empty() == source.random.empty()) {
    return fail(ErrorCode::invalid_argument, "either a FILE or --random is needed");
  }
  if (source.workflow.empty()) {
    ROCKHOPPER_TRY(auto random, parse_random_graph(source.random));
    ROCKHOPPER_TRY(auto graph, make_random_graph(random, functions));
    return LoadedGraph{{.name = "random"}, std::move(graph)};
  }
  ROCKHOPPER_TRY(auto workflow, read_wfformat(source.workflow));
  if (workflow.repetitions > 0) {
    fmt::print(stderr,
               "{}: {} repetitions (the same file, parent, child, input or output listed "
               "twice) count once\n",
               source.workflow, workflow.repetitions);
  }
  auto graph = to_graph(workflow, source.replay, functions);
  if (!graph) return fail(graph.error().code, "{}: {}", source.workflow, graph.error().message);
  return LoadedGraph{std::move(workflow), std::move(*graph)};
}

}  // namespace rockhopper::apps::dag_node
