// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/run_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/services/dag/graph/critical_path.h"
#include "stack/time_units.h"

namespace rockhopper::apps::dag_node {
namespace {

using dag::key_text;

constexpr std::size_t kPathInTable = 10;

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
  for (const Steals& steals : log.steals) {
    workers[steals.worker].steal_attempts += steals.attempts;
  }
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
  for (const WorkerReport& worker : workers) {
    sum += in_seconds(worker.busy_ns);
  }
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
  for (const ProblemCount* problem : {&unknown, &missing, &early}) {
    problem->tell(report.problems);
  }
  const dag::CriticalPath path = dag::critical_path(graph, work);
  report.path_is_measured = true;
  report.critical_path_s = in_seconds(path.length_ns);
  for (const dag::NodeIndex node : path.nodes) {
    report.path.emplace_back(graph.key(node));
  }
}

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

void print_workers(std::FILE* out, const RunReport& report) {
  fmt::print(out, "\n{:<20} {:>10} {:>10} {:>10} {:>12} {:>12} {:>8}\n", "worker", "nodes",
             "stolen", "wasted", "tried", "busy s", "busy");
  for (const WorkerReport& worker : report.workers) {
    const double busy =
        report.makespan_s > 0 ? in_seconds(worker.busy_ns) / report.makespan_s * 100 : 0;
    fmt::print(out, "{:<20} {:>10} {:>10} {:>10} {:>12} {:>12.6f} {:>7.1f}%\n", worker.name,
               worker.nodes, worker.stolen, worker.wasted, worker.steal_attempts,
               in_seconds(worker.busy_ns), busy);
  }
}

void print_path(std::FILE* out, const RunReport& report) {
  if (!report.path_is_measured) return;
  fmt::print(out, "\nthe critical path's {} nodes\n", report.path.size());
  const std::size_t shown = std::min(report.path.size(), kPathInTable);
  for (std::size_t i = 0; i < shown; ++i) {
    fmt::print(out, "  {}\n", report.path[i]);
  }
  if (shown < report.path.size()) {
    fmt::print(out, "  ... and {} more, all in --json\n", report.path.size() - shown);
  }
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

void print_report(std::FILE* out, const RunReport& report) {
  fmt::print(out, "{}: {} of {} nodes, {} workers\n\n", report.header.graph, report.committed,
             report.header.nodes, report.workers.size());
  const auto line = [out](const char* name, double value, const char* unit) {
    fmt::print(out, "  {:<34} {:>14.6f} {}\n", name, value, unit);
  };
  line("makespan", report.makespan_s, "s");
  line("work", report.work_s, "s");
  line(report.path_is_measured ? "critical path, measured" : "critical path, estimated",
       report.critical_path_s, "s");
  line("no schedule is shorter than", report.bounds.least, "s");
  line("1.25 x (work/workers + path)", report.bounds.accepted, "s");
  line("speed-up", report.speed_up, "");
  line("efficiency", report.efficiency * 100, "%");
  line("busy times' variation", report.busy_variation * 100, "%");
  fmt::print(out, "  {:<34} {:>14} ({:.1f} %)\n", "stolen nodes", report.stolen,
             share(report.stolen, report.committed) * 100);
  fmt::print(out, "  {:<34} {:>14}\n", "nodes begun more than once", report.repeated);
  fmt::print(out, "  {:<34} {:>14}\n", "runs that did not count", report.wasted);
  if (report.torn_lines > 0) {
    fmt::print(out, "  {:<34} {:>14}\n", "logs that end within a line", report.torn_lines);
  }
  print_workers(out, report);
  print_path(out, report);
}

std::string to_json(const RunReport& report) {
  nlohmann::json workers = nlohmann::json::array();
  for (const WorkerReport& worker : report.workers) {
    workers.push_back({{"name", worker.name},
                       {"nodes", worker.nodes},
                       {"stolen", worker.stolen},
                       {"wasted", worker.wasted},
                       {"steal_attempts", worker.steal_attempts},
                       {"busy_s", in_seconds(worker.busy_ns)}});
  }
  nlohmann::json object{{"program", "rh-dag"},
                        {"graph", report.header.graph},
                        {"nodes", report.header.nodes},
                        {"committed", report.committed},
                        {"stolen", report.stolen},
                        {"repeated", report.repeated},
                        {"wasted", report.wasted},
                        {"torn_lines", report.torn_lines},
                        {"makespan_s", report.makespan_s},
                        {"work_s", report.work_s},
                        {"critical_path_s", report.critical_path_s},
                        {"critical_path_measured", report.path_is_measured},
                        {"least_makespan_s", report.bounds.least},
                        {"accepted_makespan_s", report.bounds.accepted},
                        {"speed_up", report.speed_up},
                        {"efficiency", report.efficiency},
                        {"busy_variation", report.busy_variation},
                        {"workers", std::move(workers)},
                        {"problems", report.problems}};
  if (report.path_is_measured) object["critical_path"] = report.path;
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace rockhopper::apps::dag_node
