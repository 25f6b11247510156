// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/command_line.h"
#include "apps/common/option_set.h"
#include "apps/common/progress.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"
#include "apps/rh_dag/command.h"
#include "apps/rh_dag/commands.h"
#include "apps/rh_dag/functions.h"
#include "apps/rh_dag/gantt.h"
#include "apps/rh_dag/graph_summary.h"
#include "apps/rh_dag/local_run.h"
#include "apps/rh_dag/random_graph.h"
#include "apps/rh_dag/report_text.h"
#include "apps/rh_dag/run_report.h"
#include "apps/rh_dag/wfformat.h"
#include "apps/rh_dag/workflow_graph.h"
#include "apps/services/dag/graph/digest_task.h"
#include "apps/services/dag/graph/node_runner.h"

namespace {

using namespace rockhopper;
using namespace rockhopper::apps;
using namespace rockhopper::apps::workflow;

const ProgramText kText{
    "rh-dag",
    "Records and graphs of tasks in a server's memory, read and run by RDMA. Looks at recorded "
    "workflows (WfFormat 1.5), runs them, and reports on runs.",
    "  rh-dag check montage.json       what it is made of, and how fast it can be\n"
    "  rh-dag run-local montage.json   here, one task after another: the digest\n"
    "  rh-dag run-local montage.json --scale 0.001 --size-scale 0.01 --log run.log\n"
    "  rh-dag report run.log --workflow montage.json --gantt run.svg\n\n"
    "  rh-dag serve                    on one terminal, and\n"
    "  rh-dag put greeting hello       on another\n"
    "  rh-dag get greeting\n"};

struct Options {
  std::string workflow;
  std::string random;
  Replay replay;
  std::string compute = "sleep";
  std::string log;
  std::vector<std::string> logs;
  std::string gantt;
  bool json = false;
};

struct Commands {
  OptionSet check;
  OptionSet run_local;
  OptionSet report;
};

void add_json(OptionSet command, Options& options) {
  command.add_flag("--json", options.json, "print one JSON object instead of tables");
}

Option add_workflow(OptionSet command, Options& options) {
  return command.add_option("workflow", options.workflow, "a workflow of WfFormat 1.5 or 1.6")
      .type_name("FILE");
}

void add_replay(OptionSet command, Options& options) {
  command.add_option("--seed", options.replay.seed, "of the digests").type_name("N");
  command
      .add_option("--scale", options.replay.scale,
                  "tasks compute for their recorded times, times this")
      .type_name("X")
      .range(0.0, 1000.0);
  command
      .add_option("--size-scale", options.replay.size_scale,
                  "tasks write files of their recorded sizes, times this; a digest at least")
      .type_name("X")
      .range(0.0, 1000.0);
  command
      .add_option("--compute", options.compute,
                  "how: sleep leaves the CPU to others, spin keeps it busy")
      .one_of({"sleep", "spin"});
  command.add_flag("--commands", options.replay.commands,
                   "run the recorded commands instead; each writes its output to standard output");
}

Commands add_commands(OptionSet app, Options& options) {
  app.require_command();
  const OptionSet check =
      app.add_command("check", "Reads a workflow, checks all of it, and says what it is made of.");
  add_workflow(check, options).required();
  const OptionSet run_local = app.add_command(
      "run-local",
      "Runs a workflow in this process, one task after another, and prints the digest "
      "that any other run of it has to give.");
  add_workflow(run_local, options);
  run_local
      .add_option("--random", options.random,
                  "instead of a file: a graph made by chance, as for rh-dag load")
      .type_name("SPEC");
  add_replay(run_local, options);
  run_local.add_option("--log", options.log, "write down when each task ran").type_name("FILE");
  const OptionSet report =
      app.add_command("report", "Says what a run came to, from the logs of all its workers.");
  report.add_option("log", options.logs, "the logs of one run").required().type_name("FILE");
  report
      .add_option("--workflow", options.workflow,
                  "what was run: the run is held to it, and its critical path measured")
      .type_name("FILE");
  report.add_option("--gantt", options.gantt, "draw who ran what and when, as SVG")
      .type_name("FILE");
  for (const OptionSet& command : {check, run_local, report}) {
    add_json(command, options);
  }
  return {.check = check, .run_local = run_local, .report = report};
}

/// A workflow and its graph.
struct Loaded {
  Workflow workflow;
  dag::Graph graph;
};

Expected<Loaded> load(const std::string& path, const Replay& replay,
                      const dag::FunctionRegistry& registry) {
  ROCKHOPPER_TRY(auto read, read_wfformat(path));
  auto graph = to_graph(read, replay, registry);
  if (!graph) return fail(graph.error().code, "{}: {}", path, graph.error().message);
  return Loaded{std::move(read), std::move(*graph)};
}

Expected<Loaded> make_random(const std::string& text, const dag::FunctionRegistry& registry) {
  ROCKHOPPER_TRY(auto random, dag_node::parse_random_graph(text));
  ROCKHOPPER_TRY(auto graph, dag_node::make_random_graph(random, registry));
  return Loaded{{.name = "random"}, std::move(graph)};
}

Expected<void> check(const Options& options, const Loaded& loaded) {
  const GraphSummary summary = summarise(loaded.workflow, loaded.graph);
  if (options.json) {
    fmt::print("{}\n", to_json(summary));
  } else {
    print_summary(stdout, summary);
  }
  return {};
}

Expected<void> run(const Options& options, const Loaded& loaded,
                   const dag::FunctionRegistry& registry) {
  std::optional<RunLogWriter> log;
  if (!options.log.empty()) {
    ROCKHOPPER_TRY(
        log, RunLogWriter::create(options.log, header_of(loaded.graph, loaded.workflow.name)));
  }
  dag::NodeRunner runner(registry, make_command_runner(&stop_requested));
  Expected<LocalRun> done;
  {
    Progress progress("tasks");
    done = run_local(loaded.graph, runner, log ? &*log : nullptr,
                     [&](std::uint64_t count) { progress.update(count, loaded.graph.size()); });
  }
  auto closed = log ? log->close() : Expected<void>();
  if (!done) return tl::make_unexpected(done.error());
  const double seconds = static_cast<double>(done->passed_ns) * 1e-9;
  const std::string digest = dag::to_hex(done->digest);
  if (options.json) {
    fmt::print("{}\n", nlohmann::json{{"program", "rh-dag"},
                                      {"graph", loaded.workflow.name},
                                      {"nodes", loaded.graph.size()},
                                      {"seconds", seconds},
                                      {"output_bytes", done->output_bytes},
                                      {"seed", options.replay.seed},
                                      {"digest", digest}}
                           .dump());
  } else {
    fmt::print("{}: {} tasks in {:.3f} s, {} bytes written\ndigest {}\n", loaded.workflow.name,
               loaded.graph.size(), seconds, done->output_bytes, digest);
  }
  return closed;
}

Expected<void> write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (!file) return fail(ErrorCode::io, "{} cannot be written", path);
  return {};
}

Expected<void> report(const Options& options, const RunLog& log,
                      const std::optional<Loaded>& loaded) {
  const RunReport result = make_report(log, loaded ? &loaded->graph : nullptr);
  if (options.json) {
    fmt::print("{}\n", to_json(result));
  } else {
    print_report(stdout, result);
  }
  if (!options.gantt.empty()) ROCKHOPPER_TRY(write_file(options.gantt, to_gantt(log, result.path)));
  if (result.problems.empty()) return {};
  return fail(ErrorCode::invalid_state, "{}", fmt::join(result.problems, "; "));
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line(argc, argv, kText);
  Options options;
  const Commands commands = add_commands(line.app(), options);
  dag_node::Commands node_commands(line.app());
  if (const auto status = line.parse()) return *status;
  catch_stop_signals();
  if (const auto status = node_commands.run(line)) return *status;
  const Wait wait = options.compute == "spin" ? Wait::spin : Wait::sleep;
  const auto registry = make_functions(wait, &stop_requested);
  if (!registry) return line.finish(tl::make_unexpected(registry.error()));

  std::optional<Loaded> loaded;
  if (commands.run_local.given() && options.workflow.empty() == options.random.empty()) {
    return line.usage_error({ErrorCode::invalid_argument, "either a FILE or --random is needed"});
  }
  if (!options.random.empty()) {
    auto made = make_random(options.random, *registry);
    if (!made) return line.usage_error(made.error());
    loaded = std::move(*made);
  } else if (!options.workflow.empty()) {
    Replay replay = options.replay;
    // What is only looked at has the recorded times, and writes nothing.
    if (!commands.run_local.given()) replay = {.scale = 1, .size_scale = 0};
    auto read = load(options.workflow, replay, *registry);
    if (!read) return line.usage_error(read.error());
    loaded = std::move(*read);
  }
  if (commands.check.given()) return line.finish(check(options, *loaded));
  if (commands.run_local.given()) {
    return line.finish(run(options, *loaded, *registry), options.json);
  }
  const auto log = read_logs(options.logs);
  if (!log) return line.usage_error(log.error());
  return line.finish(report(options, *log, loaded));
}
