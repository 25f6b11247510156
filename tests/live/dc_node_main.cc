// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// An end of dynamic connections as a process, for tests that end it at any moment and for
// benchmarks that need its numbers and keys.
#include "apps/common/command_line.h"
#include "apps/common/option_set.h"
#include "apps/common/signals.h"
#include "tests/live/node.h"

namespace {

using namespace rockhopper;
using namespace rockhopper::live;

const apps::ProgramText kText{
    "dc-node", "Targets of dynamic connections, or initiators that keep them busy.",
    "  dc-node target --ip 10.42.0.1/24 --memif-role client --memif-socket switch0.sock\n"
    "  dc-node initiator --peer FILE --memif-role client --memif-socket switch1.sock\n"};

struct Options {
  std::string role;
  apps::EndpointOptions endpoint;
  TargetOptions target;
  InitiatorOptions initiator;
};

void add_options(apps::OptionSet app, Options& options) {
  app.add_option("role", options.role).one_of({"target", "initiator"}).required();
  apps::add_endpoint_options(app, options.endpoint, "--device");
  TargetOptions& target = options.target;
  app.add_option("--targets", target.targets).range(1, 10'000);
  app.add_option("--words", target.words).range(1, 1 << 20);
  app.add_option("--memory", target.memory, "bytes for WRITEs");
  app.add_option("--contexts", target.contexts);
  app.add_option("--tombstone-ms", target.tombstone_ms);
  app.add_option("--lease-ms", target.lease_ms);
  app.add_option("--idle-us", target.idle_us);
  app.add_option("--cnaks-per-second", target.cnaks_per_second);
  InitiatorOptions& initiator = options.initiator;
  app.add_option("--peer", initiator.peer, "file with the target's first line");
  app.add_option("--op", initiator.operation).one_of({"faa", "write"});
  app.add_option("--initiators", initiator.initiators).range(1, 1000);
  app.add_option("--streams", initiator.streams).range(1, 128);
  app.add_option("--window", initiator.window).range(1, 1024);
  app.add_option("--size", initiator.size).range(1, 1 << 20);
  app.add_option("--place", initiator.place);
  app.add_option("--timeout", initiator.timeout, "local ACK timeout code").range(1, 31);
  app.add_option("--messages", initiator.messages, "how many, and those on their way; 0: no end");
  app.add_option("--seconds", initiator.seconds);
}

Expected<void> run(const Options& options, const apps::EndpointConfig& config,
                   const stack::Arguments& arguments) {
  auto endpoint = apps::Endpoint::create(config, arguments);
  if (!endpoint) return tl::make_unexpected(endpoint.error());
  return options.role == "target" ? run_target(**endpoint, options.target)
                                  : run_initiator(**endpoint, options.initiator, config.seed);
}

}  // namespace

int main(int argc, char** argv) {
  apps::CommandLine line(argc, argv, kText);
  Options options;
  add_options(line.app(), options);
  if (const auto status = line.parse()) return *status;
  const auto config = apps::make_endpoint_config(
      options.endpoint, {.role = options.role == "target" ? apps::Role::server : apps::Role::client,
                         .use_eal_ports = !line.arguments().embedded});
  if (!config) return line.usage_error(config.error());
  apps::catch_stop_signals();
  return line.finish(run(options, *config, line.arguments()));
}
