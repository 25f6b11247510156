// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "apps/common/command_line.h"
#include "apps/common/option_set.h"
#include "apps/rh_dag/connect_options.h"
#include "stack/eal.h"

namespace rockhopper::apps::dag_node {

/// A command of rh-dag with its options.
class Command {
 public:
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  virtual ~Command() = default;

  /// Whether the arguments have it. Then it can be run, which includes its end: see CommandLine.
  [[nodiscard]] bool given() const { return options_.given(); }
  [[nodiscard]] virtual ExitStatus run(const CommandLine& line) = 0;

 protected:
  Command(const OptionSet& app, std::string_view name, std::string_view summary)
      : options_(app.add_command(name, summary)) {}
  [[nodiscard]] OptionSet options() const { return options_; }

 private:
  OptionSet options_;
};

/// Where a command of a client is run.
struct Site {
  const ConnectOptions& connect;
  const EndpointConfig& config;
  const stack::Arguments& arguments;
};

/// A command that is a client of servers.
class ClientCommand : public Command {
 public:
  [[nodiscard]] ExitStatus run(const CommandLine& line) override;

 protected:
  ClientCommand(const OptionSet& app, std::string_view name, std::string_view summary)
      : Command(app, name, summary) {}
  void add_connection(const char* record_max = kRecordMax) {
    add_connect_options(options(), connect_, record_max);
  }
  /// What is bad arguments though no option is: read before anything is connected.
  [[nodiscard]] virtual Expected<void> prepare() { return {}; }
  [[nodiscard]] virtual Expected<void> execute(const Site& site) = 0;

 private:
  ConnectOptions connect_;
};

using Commands = std::vector<std::unique_ptr<Command>>;

// Each adds commands of its own, in the order in which --help has them.

/// `check`, `run-local` and `report`, which need no server.
void add_workflow_commands(const OptionSet& app, Commands& commands);
/// `serve`, until a signal comes.
void add_serve_command(const OptionSet& app, Commands& commands);
/// `work`: runs nodes of whatever runs the home has, until a signal comes or there have been as
/// many runs as are wanted. What it has begun is finished then. A worker that is fenced joins
/// again.
void add_work_command(const OptionSet& app, Commands& commands);
/// `load`: uploads a graph, waits until it has been examined, or until the run has ended, and then
/// reads all outputs. Fails if the run was refused, failed or was canceled.
void add_load_command(const OptionSet& app, Commands& commands);
/// `status`, what a home shows of runs and workers by READs alone; `cancel` and `drop`.
void add_run_commands(const OptionSet& app, Commands& commands);
/// `get`, `put`, `create`, `update`, `delete` and `batch`.
void add_record_commands(const OptionSet& app, Commands& commands);

}  // namespace rockhopper::apps::dag_node
