// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/load_options.h"

#include "apps/common/signals.h"
#include "apps/rh_dag/functions.h"
#include "apps/rh_dag/run_requests.h"
#include "apps/rh_dag/wfformat.h"
#include "apps/services/dag/schedule/deque.h"
#include "apps/services/dag/schedule/home_request.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr const char* kGraph = "Graph";
constexpr const char* kRun = "Run";

/// Names the run as the workflow if it has no name.
Expected<dag::Graph> workflow_graph(const LoadOptions& options,
                                    const dag::FunctionRegistry& functions, std::string& run) {
  ROCKHOPPER_TRY(auto read, workflow::read_wfformat(options.workflow));
  if (run.empty()) run = read.name;
  auto graph = workflow::to_graph(read, options.replay, functions);
  if (!graph) return fail(graph.error().code, "{}: {}", options.workflow, graph.error().message);
  return graph;
}

Expected<dag::Graph> random_graph(const LoadOptions& options,
                                  const dag::FunctionRegistry& functions, std::string& run) {
  ROCKHOPPER_TRY(auto random, parse_random_graph(options.random_text));
  if (run.empty()) run = "random";
  return make_random_graph(random, functions);
}

}  // namespace

void add_load_options(OptionSet app, LoadOptions& options) {
  app.add_option("workflow", options.workflow, "a workflow of WfFormat 1.5 or 1.6")
      .type_name("FILE");
  app.add_option("--random", options.random_text,
                 "instead of a file: a graph made by chance, as nodes=1000,seed=1,edges=2,width=0,"
                 "bytes=32,work=10us; width: predecessors are among so many nodes before")
      .type_name("SPEC")
      .group(kGraph);
  app.add_option("--digest-seed", options.replay.seed, "of a workflow's digests")
      .type_name("N")
      .group(kGraph);
  app.add_option("--scale", options.replay.scale,
                 "tasks compute for their recorded times, times this")
      .range(0.0, 1000.0)
      .type_name("X")
      .group(kGraph);
  app.add_option("--size-scale", options.replay.size_scale,
                 "tasks write files of their recorded sizes, times this; a digest at least")
      .range(0.0, 1000.0)
      .type_name("X")
      .group(kGraph);
  app.add_flag("--commands", options.replay.commands,
               "run the recorded commands instead; by workers that allow it")
      .group(kGraph);
  app.add_option("--name", options.name, "of the run. Default: the workflow's")
      .type_name("RUN")
      .group(kRun);
  app.add_option("--priority", options.priority, "class of the run; 0 is the most urgent one")
      .range(0u, dag::kPriorityClasses - 1)
      .type_name("N")
      .group(kRun);
  app.add_option("--attempts", options.attempts,
                 "of each node, before its run fails; those of lost workers do not count")
      .range(1u, dag::kAttemptsMax)
      .type_name("N")
      .group(kRun);
  app.add_flag("--wait", options.wait, "until the run has ended; then read its outputs: the digest")
      .group(kRun);
  app.add_flag("--drop", options.drop, "with --wait: forget the run then").group(kRun);
  app.add_option("--window", options.window, "outputs that are read at a time")
      .range(1, 4096)
      .type_name("N")
      .group(kRun);
  options.connect.record_max = kSmallRecordMax;
  add_connect_options(app, options.connect);
}

Expected<Loaded> load_graph(const LoadOptions& options) {
  if (options.workflow.empty() == options.random_text.empty()) {
    return fail(ErrorCode::invalid_argument, "either a FILE or --random is needed");
  }
  if (options.drop && !options.wait) {
    return fail(ErrorCode::invalid_argument, "--drop needs --wait");
  }
  ROCKHOPPER_TRY(const auto functions,
                 workflow::make_functions(workflow::Wait::sleep, &stop_requested));
  std::string run = options.name;
  ROCKHOPPER_TRY(auto graph, options.workflow.empty() ? random_graph(options, functions, run)
                                                      : workflow_graph(options, functions, run));
  if (auto good = check_run_name(run); !good) {
    return fail(good.error().code, "{}; give it another --name", good.error().message);
  }
  return Loaded{std::move(graph), std::move(run)};
}

}  // namespace rockhopper::apps::dag_node
