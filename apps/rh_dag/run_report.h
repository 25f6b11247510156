// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "apps/rh_dag/run_log.h"
#include "apps/services/dag/graph/graph.h"
#include "apps/services/dag/graph/makespan_bounds.h"

namespace rockhopper::apps::dag_node {

struct WorkerReport {
  std::string name;
  std::uint64_t nodes = 0;    ///< committed
  std::uint64_t stolen = 0;   ///< of these
  std::uint64_t wasted = 0;   ///< run and not committed
  std::uint64_t busy_ns = 0;  ///< with all that it ran
  std::uint64_t steal_attempts = 0;
};

/// What a run came to (DG-13). Times in seconds.
struct RunReport {
  RunHeader header;
  std::vector<WorkerReport> workers;  ///< by name
  std::uint64_t committed = 0;
  std::uint64_t stolen = 0;
  std::uint64_t wasted = 0;
  std::uint64_t repeated = 0;  ///< nodes that took more than one attempt
  std::uint64_t torn_lines = 0;
  double makespan_s = 0;       ///< from the first start to the last end
  double work_s = 0;           ///< of what was committed
  double critical_path_s = 0;  ///< measured if the graph is known, else the header's estimate
  bool path_is_measured = false;
  std::vector<std::string> path;      ///< keys, if it is measured
  double speed_up = 0;                ///< work / makespan
  double efficiency = 0;              ///< speed-up / workers
  double busy_variation = 0;          ///< coefficient of variation of the workers' busy times
  dag::MakespanBounds bounds;         ///< of the work and the critical path above
  std::vector<std::string> problems;  ///< why the logs are not those of a complete, right run
};

/// `graph` null: only what the logs tell by themselves is checked. With it, each of its nodes must
/// have been committed once, and none begun before the nodes it depends on had ended.
[[nodiscard]] RunReport make_report(const RunLog& log, const dag::Graph* graph);

/// The report as tables for people.
void print_report(std::FILE* out, const RunReport& report);
/// The report as one JSON object.
[[nodiscard]] std::string to_json(const RunReport& report);

}  // namespace rockhopper::apps::dag_node
