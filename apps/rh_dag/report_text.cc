// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/report_text.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "stack/time_units.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr std::size_t kPathInTable = 10;

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
  for (std::size_t i = 0; i < shown; ++i) fmt::print(out, "  {}\n", report.path[i]);
  if (shown < report.path.size()) {
    fmt::print(out, "  ... and {} more, all in --json\n", report.path.size() - shown);
  }
}

}  // namespace

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
