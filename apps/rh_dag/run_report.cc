// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/run_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

#include "apps/services/dag/graph/critical_path.h"
#include "stack/time_units.h"

namespace rockhopper::apps::dag_node {
namespace {

using dag::key_text;

/// Problems of one kind: the first of them, and how many there are.
class ProblemCount {
 public:
  template <typename... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    if (count_++ == 0) first_ = fmt::format(text, std::forward<Args>(args)...);
  }
  void tell(std::vector<std::string>& problems) const {
    if (count_ == 0) return;
    problems.push_back(count_ == 1 ? first_ : fmt::format("{} (and {} more)", first_, count_ - 1));
  }

 private:
  std::uint64_t count_ = 0;
  std::string first_;
};

using CommittedRuns = std::unordered_map<std::string_view, const NodeRun*>;

void count_workers(const RunLog& log, RunReport& report) {
  std::map<std::string, WorkerReport> workers;
  std::uint64_t first_ns = UINT64_MAX;
  std::uint64_t last_ns = 0;
  for (const NodeRun& run : log.runs) {
    WorkerReport& worker = workers[run.worker];
    worker.busy_ns += run.end_ns - run.start_ns;
    first_ns = std::min(first_ns, run.start_ns);
    last_ns = std::max(last_ns, run.end_ns);
    if (!run.committed) {
      ++worker.wasted;
      continue;
    }
    ++worker.nodes;
    if (run.stolen) ++worker.stolen;
    if (run.attempts > 1) ++report.repeated;
    report.work_s += in_seconds(run.end_ns - run.start_ns);
  }
  // Who got nothing to do is a worker all the same.
  for (const Steals& steals : log.steals) workers[steals.worker].steal_attempts += steals.attempts;
  for (auto& [name, worker] : workers) {
    worker.name = name;
    report.committed += worker.nodes;
    report.stolen += worker.stolen;
    report.wasted += worker.wasted;
    report.workers.push_back(worker);
  }
  if (!log.runs.empty()) report.makespan_s = in_seconds(last_ns - first_ns);
}

double variation_of(const std::vector<WorkerReport>& workers) {
  double sum = 0;
  for (const WorkerReport& worker : workers) sum += in_seconds(worker.busy_ns);
  if (sum == 0) return 0;
  const double mean = sum / static_cast<double>(workers.size());
  double squares = 0;
  for (const WorkerReport& worker : workers) {
    squares += (in_seconds(worker.busy_ns) - mean) * (in_seconds(worker.busy_ns) - mean);
  }
  return std::sqrt(squares / static_cast<double>(workers.size())) / mean;
}

CommittedRuns committed_runs(const RunLog& log, RunReport& report) {
  CommittedRuns runs;
  ProblemCount twice;
  for (const NodeRun& run : log.runs) {
    if (!run.committed) continue;
    const auto [place, is_new] = runs.emplace(run.node, &run);
    if (!is_new) {
      twice.add("node {} was committed by {} and by {}", key_text(run.node),
                key_text(place->second->worker), key_text(run.worker));
    }
  }
  twice.tell(report.problems);
  return runs;
}

/// Holds the runs to the graph; the measured times are then those of its nodes.
void follow_graph(const dag::Graph& graph, const CommittedRuns& runs, RunReport& report) {
  std::vector<const NodeRun*> by_node(graph.size(), nullptr);
  std::vector<std::uint64_t> work(graph.size(), 0);
  ProblemCount unknown;
  for (const auto& [key, run] : runs) {
    const auto node = graph.find(key);
    if (!node) {
      unknown.add("node {} is not in the graph", key_text(key));
      continue;
    }
    by_node[*node] = run;
    work[*node] = run->end_ns - run->start_ns;
  }
  ProblemCount missing;
  ProblemCount early;
  for (const dag::NodeIndex node : graph.by_key()) {
    if (by_node[node] == nullptr) {
      missing.add("node {} was not run", key_text(graph.key(node)));
      continue;
    }
    for (const dag::Predecessor& predecessor : graph.predecessors(node)) {
      const NodeRun* before = by_node[predecessor.from];
      const auto wait_ns = graph.edge(predecessor.edge).constraints.not_before_ns;
      if (before != nullptr && by_node[node]->start_ns < before->end_ns + wait_ns) {
        early.add("node {} was begun before it could be: {} ended later", key_text(graph.key(node)),
                  key_text(graph.key(predecessor.from)));
      }
    }
  }
  for (const ProblemCount* problem : {&unknown, &missing, &early}) problem->tell(report.problems);
  const dag::CriticalPath path = dag::critical_path(graph, work);
  report.path_is_measured = true;
  report.critical_path_s = in_seconds(path.length_ns);
  for (const dag::NodeIndex node : path.nodes) report.path.emplace_back(graph.key(node));
}

}  // namespace

RunReport make_report(const RunLog& log, const dag::Graph* graph) {
  RunReport report;
  report.header = log.header;
  report.torn_lines = log.torn_lines;
  count_workers(log, report);
  const CommittedRuns runs = committed_runs(log, report);
  if (runs.size() != log.header.nodes) {
    report.problems.push_back(
        fmt::format("{} of {} nodes were run", runs.size(), log.header.nodes));
  }
  report.critical_path_s = in_seconds(log.header.critical_path_ns);
  if (graph != nullptr) follow_graph(*graph, runs, report);
  const auto workers = std::max<std::size_t>(report.workers.size(), 1);
  if (report.makespan_s > 0) report.speed_up = report.work_s / report.makespan_s;
  report.efficiency = report.speed_up / static_cast<double>(workers);
  report.busy_variation = variation_of(report.workers);
  report.bounds = dag::makespan_bounds(report.work_s, report.critical_path_s,
                                       static_cast<std::uint32_t>(workers));
  return report;
}

}  // namespace rockhopper::apps::dag_node
