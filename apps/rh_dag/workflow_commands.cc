// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/output_file.h"
#include "apps/common/progress.h"
#include "apps/common/signals.h"
#include "apps/rh_dag/command_runner.h"
#include "apps/rh_dag/commands.h"
#include "apps/rh_dag/functions.h"
#include "apps/rh_dag/gantt.h"
#include "apps/rh_dag/graph_source.h"
#include "apps/rh_dag/graph_summary.h"
#include "apps/rh_dag/local_run.h"
#include "apps/rh_dag/run_report.h"
#include "apps/services/dag/graph/digest_task.h"
#include "apps/services/dag/graph/node_runner.h"

namespace rockhopper::apps::dag_node {
namespace {

/// A command that looks at a workflow, or runs it here.
class WorkflowCommand : public Command {
 public:
  [[nodiscard]] ExitStatus run(const CommandLine& line) final {
    auto functions = make_functions(wait_, &stop_requested);
    if (!functions) return line.finish(tl::make_unexpected(functions.error()));
    functions_ = std::move(*functions);
    if (auto prepared = prepare(); !prepared) return line.input_error(prepared.error());
    return line.finish(execute(), json_ && tells_errors());
  }

 protected:
  WorkflowCommand(const OptionSet& app, std::string_view name, std::string_view summary)
      : Command(app, name, summary) {}
  void add_json() {
    options().add_flag("--json", json_, "print one JSON object instead of tables");
  }
  /// Reads what the arguments name; what fails is bad arguments.
  [[nodiscard]] virtual Expected<void> prepare() {
    ROCKHOPPER_TRY(loaded_, load_graph(source_, functions_));
    return {};
  }
  [[nodiscard]] virtual Expected<void> execute() = 0;
  /// Whether --json has an error as an object, too.
  [[nodiscard]] virtual bool tells_errors() const { return false; }

  GraphSource source_;
  Wait wait_ = Wait::sleep;
  bool json_ = false;
  dag::FunctionRegistry functions_;
  std::optional<LoadedGraph> loaded_;
};

/// What is only looked at has the recorded times, and writes nothing.
constexpr Replay kAsRecorded{.scale = 1, .size_scale = 0};

class CheckCommand final : public WorkflowCommand {
 public:
  explicit CheckCommand(const OptionSet& app)
      : WorkflowCommand(app, "check",
                        "Reads a workflow, checks all of it, and says what it is made of.") {
    source_.replay = kAsRecorded;
    add_workflow_option(options(), source_).required();
    add_json();
  }

 private:
  [[nodiscard]] Expected<void> execute() override {
    const GraphSummary summary = summarise(loaded_->workflow, loaded_->graph);
    if (json_) {
      fmt::print("{}\n", to_json(summary));
    } else {
      print_summary(stdout, summary);
    }
    return {};
  }
};

class RunLocalCommand final : public WorkflowCommand {
 public:
  explicit RunLocalCommand(const OptionSet& app)
      : WorkflowCommand(app, "run-local",
                        "Runs a workflow in this process, one task after another, and prints the "
                        "digest that any other run of it has to give.") {
    add_workflow_option(options(), source_);
    options().add_option("--random SPEC", source_.random,
                         "instead of a file: a graph made by chance, as for rh-dag load");
    options().add_option("--seed N", source_.replay.seed, "of the digests");
    options().add_option("--compute", wait_,
                         "how: sleep leaves the CPU to others, spin keeps it busy");
    add_replay_options(options(), source_,
                       "run the recorded commands instead; each writes its output to standard "
                       "output");
    options().add_option("--log FILE", log_, "write down when each task ran");
    add_json();
  }

 private:
  [[nodiscard]] bool tells_errors() const override { return true; }

  [[nodiscard]] Expected<void> execute() override {
    const dag::Graph& graph = loaded_->graph;
    const std::string& name = loaded_->workflow.name;
    std::optional<RunLogWriter> log;
    if (!log_.empty()) {
      ROCKHOPPER_TRY(log, RunLogWriter::create(log_, header_of(graph, name)));
    }
    dag::NodeRunner runner(functions_, make_command_runner(&stop_requested));
    Expected<LocalRun> done;
    {
      Progress progress("tasks");
      done = run_local(graph, runner, log ? &*log : nullptr,
                       [&](std::uint64_t count) { progress.update(count, graph.size()); });
    }
    auto closed = log ? log->close() : Expected<void>();
    if (!done) return tl::make_unexpected(done.error());
    print(*done);
    return closed;
  }

  void print(const LocalRun& done) const {
    const std::string& name = loaded_->workflow.name;
    const std::size_t nodes = loaded_->graph.size();
    const double seconds = static_cast<double>(done.passed_ns) * 1e-9;
    const std::string digest = dag::to_hex(done.digest);
    if (!json_) {
      fmt::print("{}: {} tasks in {:.3f} s, {} bytes written\ndigest {}\n", name, nodes, seconds,
                 done.output_bytes, digest);
      return;
    }
    fmt::print("{}\n", nlohmann::json{{"program", "rh-dag"},
                                      {"graph", name},
                                      {"nodes", nodes},
                                      {"seconds", seconds},
                                      {"output_bytes", done.output_bytes},
                                      {"seed", source_.replay.seed},
                                      {"digest", digest}}
                           .dump());
  }

  std::string log_;
};

Expected<void> write_file(const std::string& path, const std::string& text) {
  ROCKHOPPER_TRY(auto file, open_output(path));
  (void)std::fwrite(text.data(), 1, text.size(), file.get());  // close_output() tells what failed
  return close_output(std::move(file), path);
}

class ReportCommand final : public WorkflowCommand {
 public:
  explicit ReportCommand(const OptionSet& app)
      : WorkflowCommand(app, "report",
                        "Says what a run came to, from the logs of all its workers.") {
    source_.replay = kAsRecorded;
    options().add_option("log FILE", logs_, "the logs of one run").required();
    options().add_option("--workflow FILE", source_.workflow,
                         "what was run: the run is held to it, and its critical path measured");
    options().add_option("--gantt FILE", gantt_, "draw who ran what and when, as SVG");
    add_json();
  }

 private:
  [[nodiscard]] Expected<void> prepare() override {
    if (!source_.workflow.empty()) ROCKHOPPER_TRY(WorkflowCommand::prepare());
    ROCKHOPPER_TRY(log_, read_logs(logs_));
    return {};
  }

  [[nodiscard]] Expected<void> execute() override {
    const RunReport result = make_report(log_, loaded_ ? &loaded_->graph : nullptr);
    // First, as it may be what standard output is for.
    if (!gantt_.empty()) ROCKHOPPER_TRY(write_file(gantt_, to_gantt(log_, result.path)));
    if (json_) {
      fmt::print("{}\n", to_json(result));
    } else {
      print_report(stdout, result);
    }
    if (result.problems.empty()) return {};
    return fail(ErrorCode::invalid_state, "{}", fmt::join(result.problems, "; "));
  }

  std::vector<std::string> logs_;
  RunLog log_;
  std::string gantt_;
};

}  // namespace

void add_workflow_commands(const OptionSet& app, Commands& commands) {
  commands.push_back(std::make_unique<CheckCommand>(app));
  commands.push_back(std::make_unique<RunLocalCommand>(app));
  commands.push_back(std::make_unique<ReportCommand>(app));
}

}  // namespace rockhopper::apps::dag_node
