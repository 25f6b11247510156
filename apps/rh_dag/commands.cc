// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/commands.h"

#include <functional>
#include <list>
#include <string>
#include <utility>

#include "apps/common/signals.h"
#include "apps/rh_dag/load.h"
#include "apps/rh_dag/record_commands.h"
#include "apps/rh_dag/run_requests.h"
#include "apps/rh_dag/serve.h"
#include "apps/rh_dag/status.h"
#include "apps/rh_dag/work.h"

namespace rockhopper::apps::dag_node {
namespace {

/// The endpoint that a command asks for, or why there can be none.
Expected<EndpointConfig> endpoint_of(const CommandLine& line, const EndpointOptions& options,
                                     Role role, std::uint16_t path_mtu) {
  ROCKHOPPER_TRY(auto config,
                 make_endpoint_config(options, {.role = role,
                                                .use_eal_ports = !line.arguments().embedded,
                                                .path_mtu = path_mtu}));
  ROCKHOPPER_TRY(check_path_mtu(path_mtu, config));
  return config;
}

}  // namespace

struct Commands::Parts {
  using Run = std::function<ExitStatus(const CommandLine& line)>;
  struct Command {
    OptionSet options;
    Run run;
  };

  void add(OptionSet app, const char* name, const char* text,
           const std::function<void(OptionSet)>& add_options, Run run) {
    const OptionSet command = app.add_command(name, text);
    add_options(command);
    commands.push_back({command, std::move(run)});
  }
  void add_serve(OptionSet app);
  void add_records(OptionSet app);
  void add_load(OptionSet app);
  void add_work(OptionSet app);
  void add_status(OptionSet app);
  void add_run_command(OptionSet app, RunVerb verb, const char* name, const char* text);
  /// One of the commands that do one thing with one record, or several.
  void add_record_command(OptionSet app, Verb verb, const char* text);

  std::list<Command> commands;
  RawServeOptions serve_options;
  LoadOptions load_options;
  WorkOptions work_options;
  StatusOptions status_options;
  std::list<RunOptions> run_options;
  std::list<RecordOptions> record_options;  ///< of each command its own
};

/// Runs a client's command: with the servers' addresses and an endpoint.
static ExitStatus run_client(const CommandLine& line, const RawConnectOptions& raw,
                             const std::function<Expected<void>(const Site&)>& run) {
  auto connect = finish_options(raw);
  if (!connect) return line.usage_error(connect.error());
  auto config = endpoint_of(line, connect->endpoint, Role::client, connect->path_mtu);
  if (!config) return line.usage_error(config.error());
  return line.finish(run({*connect, *config, line.arguments()}), connect->json);
}

void Commands::Parts::add_serve(OptionSet app) {
  add(
      app, "serve", "Keeps records in its memory, which clients read and update by RDMA.",
      [this](OptionSet command) { add_serve_options(command, serve_options); },
      [this](const CommandLine& line) -> ExitStatus {
        auto options = finish_options(serve_options);
        if (!options) return line.usage_error(options.error());
        auto config = endpoint_of(line, options->endpoint, Role::server, options->path_mtu);
        if (!config) return line.usage_error(config.error());
        return line.finish(serve(*options, *config, line.arguments()), options->json);
      });
}

void Commands::Parts::add_record_command(OptionSet app, Verb verb, const char* text) {
  RecordOptions& options = record_options.emplace_back();
  const std::string name(to_string(verb));
  add(
      app, name.c_str(), text,
      [&options, verb](OptionSet command) {
        if (verb == Verb::get) return add_get_options(command, options);
        if (verb == Verb::erase) return add_delete_options(command, options);
        add_value_options(command, options, verb);
      },
      [&options, verb](const CommandLine& line) -> ExitStatus {
        const auto work = make_work(options, verb);
        if (!work) return line.usage_error(work.error());
        return run_client(line, options.connect,
                          [&](const Site& site) { return run_tasks(options, *work, site); });
      });
}

void Commands::Parts::add_records(OptionSet app) {
  add_record_command(app, Verb::get, "Reads records by key, with nobody's help (one RDMA READ).");
  add_record_command(app, Verb::put,
                     "Makes a record, or gives it new data and what room it needs.");
  add_record_command(app, Verb::create, "Makes a record that is not there yet.");
  add_record_command(app, Verb::update, "Replaces a record's data, by RDMA alone.");
  add_record_command(app, Verb::erase, "Deletes records.");
  RecordOptions& options = record_options.emplace_back();
  add(
      app, "batch", "Does what lines say, in order, by one connection: get KEY, put KEY VALUE...",
      [&options](OptionSet command) { add_batch_options(command, options); },
      [&options](const CommandLine& line) -> ExitStatus {
        return run_client(line, options.connect,
                          [&](const Site& site) { return run_batch(options, site); });
      });
}

void Commands::Parts::add_load(OptionSet app) {
  add(
      app, "load", "Has a graph run by the workers of a home.",
      [this](OptionSet command) { add_load_options(command, load_options); },
      [this](const CommandLine& line) -> ExitStatus {
        const auto loaded = load_graph(load_options);
        if (!loaded) return line.usage_error(loaded.error());
        return run_client(line, load_options.connect,
                          [&](const Site& site) { return load(load_options, *loaded, site); });
      });
}

void Commands::Parts::add_work(OptionSet app) {
  add(
      app, "work", "Runs nodes of the graphs at a home, beside any number of others.",
      [this](OptionSet command) { add_work_options(command, work_options); },
      [this](const CommandLine& line) -> ExitStatus {
        if (auto good = finish_options(work_options); !good) return line.usage_error(good.error());
        return run_client(line, work_options.connect,
                          [&](const Site& site) { return work(work_options, site); });
      });
}

void Commands::Parts::add_status(OptionSet app) {
  add(
      app, "status", "Shows runs and workers of a home, which has no work with it (RDMA READ).",
      [this](OptionSet command) { add_status_options(command, status_options); },
      [this](const CommandLine& line) -> ExitStatus {
        return run_client(line, status_options.connect,
                          [&](const Site& site) { return show_status(status_options, site); });
      });
}

void Commands::Parts::add_run_command(OptionSet app, RunVerb verb, const char* name,
                                      const char* text) {
  RunOptions& options = run_options.emplace_back();
  add(
      app, name, text,
      [&options, verb](OptionSet command) { add_run_options(command, options, verb); },
      [&options, verb](const CommandLine& line) -> ExitStatus {
        if (auto good = check_run_name(options.run); !good) return line.usage_error(good.error());
        return run_client(line, options.connect,
                          [&](const Site& site) { return change_run(options, verb, site); });
      });
}

Commands::Commands(OptionSet app) : parts_(std::make_unique<Parts>()) {
  parts_->add_serve(app);
  parts_->add_work(app);
  parts_->add_load(app);
  parts_->add_status(app);
  parts_->add_run_command(app, RunVerb::cancel, "cancel", "Ends a run before it is complete.");
  parts_->add_run_command(app, RunVerb::drop, "drop", "Forgets a run that has ended.");
  parts_->add_records(app);
}

Commands::~Commands() = default;

std::optional<ExitStatus> Commands::run(const CommandLine& line) {
  for (const Parts::Command& command : parts_->commands) {
    if (command.options.given()) return command.run(line);
  }
  return std::nullopt;
}

}  // namespace rockhopper::apps::dag_node
