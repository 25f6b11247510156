// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/graph_summary.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/services/dag/graph/critical_path.h"
#include "apps/services/dag/graph/makespan_bounds.h"
#include "stack/time_units.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr std::uint32_t kWorkers[] = {1, 2, 4, 8, 16};

/// A count of a summary, as JSON and as people read it.
struct Count {
  using Value = std::uint64_t GraphSummary::*;
  const char* name;
  const char* text;
  Value value;
  bool unless_0 = false;  ///< people see it then only
};

constexpr Count kCounts[] = {
    {"tasks", "tasks", &GraphSummary::tasks},
    {"dependencies", "dependencies", &GraphSummary::edges},
    {"data_dependencies", "  of these, by data", &GraphSummary::data_edges},
    {"dependencies_by_files", "  of these, told by files only",
     &GraphSummary::dependencies_by_files, true},
    {"files", "files", &GraphSummary::files},
    {"written_bytes", "bytes written by tasks", &GraphSummary::written_bytes},
    {"external_bytes", "bytes only read", &GraphSummary::external_bytes},
    {"first_tasks", "first tasks", &GraphSummary::first_tasks},
    {"last_tasks", "last tasks", &GraphSummary::last_tasks},
    {"levels", "levels", &GraphSummary::levels},
    {"width", "tasks of the widest level", &GraphSummary::width},
    {"most_predecessors", "most dependencies of a task", &GraphSummary::most_predecessors},
    {"most_successors", "most tasks that wait for one", &GraphSummary::most_successors},
    {"with_command", "tasks with a command", &GraphSummary::with_command},
    {"repetitions", "listed twice, counted once", &GraphSummary::repetitions, true},
    {"without_runtime", "tasks without a runtime", &GraphSummary::without_runtime, true},
};

}  // namespace

GraphSummary summarise(const Workflow& workflow, const dag::Graph& graph) {
  GraphSummary summary;
  summary.name = workflow.name;
  summary.tasks = graph.size();
  summary.edges = graph.edges();
  summary.dependencies_by_files = workflow.dependencies_by_files;
  summary.repetitions = workflow.repetitions;
  summary.files = workflow.files.size();
  for (const Workflow::File& file : workflow.files) {
    (file.writer ? summary.written_bytes : summary.external_bytes) += file.bytes;
  }
  for (const Workflow::Task& task : workflow.tasks) {
    if (!task.runtime_ns) ++summary.without_runtime;
    if (!task.command.empty()) ++summary.with_command;
  }
  for (dag::NodeIndex node = 0; node < graph.size(); ++node) {
    const std::uint64_t successors = graph.edges_of(node).size();
    const std::uint64_t predecessors = graph.predecessors(node).size();
    if (predecessors == 0) ++summary.first_tasks;
    if (successors == 0) ++summary.last_tasks;
    summary.most_successors = std::max(summary.most_successors, successors);
    summary.most_predecessors = std::max(summary.most_predecessors, predecessors);
    for (const dag::Edge& edge : graph.edges_of(node)) {
      if ((edge.constraints.set & dag::kData) != 0) ++summary.data_edges;
    }
  }
  const auto widths = dag::level_widths(graph);
  summary.levels = widths.size();
  summary.width = *std::max_element(widths.begin(), widths.end());
  const auto work = dag::work_of(graph);
  for (const std::uint64_t ns : work) {
    summary.work_s += in_seconds(ns);
  }
  const auto path = dag::critical_path(graph, work);
  summary.critical_path_s = in_seconds(path.length_ns);
  for (const dag::NodeIndex node : path.nodes) {
    summary.critical_path.emplace_back(graph.key(node));
  }
  if (workflow.makespan_ns) summary.recorded_makespan_s = in_seconds(*workflow.makespan_ns);
  return summary;
}

void print_summary(std::FILE* out, const GraphSummary& summary) {
  fmt::print(out, "{}\n\n", summary.name);
  for (const Count& count : kCounts) {
    if (count.unless_0 && summary.*count.value == 0) continue;
    fmt::print(out, "  {:<34} {:>16}\n", count.text, summary.*count.value);
  }
  const auto time = [out](const std::string& name, double value) {
    fmt::print(out, "  {:<34} {:>16.3f} s\n", name, value);
  };
  time("work", summary.work_s);
  time(fmt::format("critical path ({} tasks)", summary.critical_path.size()),
       summary.critical_path_s);
  if (summary.recorded_makespan_s) time("recorded makespan", *summary.recorded_makespan_s);
  fmt::print(out, "\n  {:>8} {:>18} {:>28}\n", "workers", "not shorter than",
             "1.25 x (work/workers + path)");
  for (const std::uint32_t workers : kWorkers) {
    const auto bounds = dag::makespan_bounds(summary.work_s, summary.critical_path_s, workers);
    fmt::print(out, "  {:>8} {:>16.3f} s {:>26.3f} s\n", workers, bounds.least, bounds.accepted);
  }
}

std::string to_json(const GraphSummary& summary) {
  nlohmann::json object{{"program", "rh-dag"},
                        {"graph", summary.name},
                        {"work_s", summary.work_s},
                        {"critical_path_s", summary.critical_path_s},
                        {"critical_path", summary.critical_path}};
  for (const Count& count : kCounts) {
    object[count.name] = summary.*count.value;
  }
  if (summary.recorded_makespan_s) object["recorded_makespan_s"] = *summary.recorded_makespan_s;
  return object.dump();
}

}  // namespace rockhopper::apps::dag_node
