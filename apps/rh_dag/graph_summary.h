// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "apps/rh_dag/workflow.h"
#include "apps/services/dag/graph/graph.h"

namespace rockhopper::apps::dag_node {

/// What a workflow is made of, and how fast it could be at best.
struct GraphSummary {
  std::string name;
  std::uint64_t tasks = 0;
  std::uint64_t edges = 0;
  std::uint64_t data_edges = 0;
  std::uint64_t dependencies_by_files = 0;
  std::uint64_t repetitions = 0;
  std::uint64_t files = 0;
  std::uint64_t written_bytes = 0;   ///< by its tasks
  std::uint64_t external_bytes = 0;  ///< that it only reads
  std::uint64_t first_tasks = 0;     ///< that depend on nothing
  std::uint64_t last_tasks = 0;      ///< that nothing depends on
  std::uint64_t levels = 0;
  std::uint64_t width = 0;  ///< tasks of the widest level
  std::uint64_t most_predecessors = 0;
  std::uint64_t most_successors = 0;
  std::uint64_t without_runtime = 0;
  std::uint64_t with_command = 0;
  double work_s = 0;
  double critical_path_s = 0;
  std::vector<std::string> critical_path;  ///< ids
  std::optional<double> recorded_makespan_s;
};

/// `graph` is that of the workflow.
[[nodiscard]] GraphSummary summarise(const Workflow& workflow, const dag::Graph& graph);

void print_summary(std::FILE* out, const GraphSummary& summary);
[[nodiscard]] std::string to_json(const GraphSummary& summary);

}  // namespace rockhopper::apps::dag_node
