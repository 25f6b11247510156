// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_ami/program.h"

#include "apps/common/command_line.h"
#include "apps/common/measuring.h"
#include "apps/common/tcp.h"
#include "apps/rh_ami/client.h"
#include "apps/rh_ami/options.h"
#include "apps/rh_ami/server.h"
#include "roce/random.h"

namespace rockhopper::apps::messages {

namespace {

const ProgramText kText{
    "rh-ami",
    "Active messages, puts, gets and additions by an injection FIFO and a completion bit mask "
    "(docs/ami.md): latency, rate and bandwidth between two processes.",
    "  rh-ami                                  on one terminal, and\n"
    "  rh-ami -s 8 localhost                   on another: half a round trip\n\n"
    "  rh-ami --op am_bw -s 8,64k -D 2 localhost\n"
    "                                          a window of messages for 2 seconds\n"
    "  rh-ami --op all --check --level handled --callbacks 30 localhost\n"
    "                                          everything compared\n\n"
    "  rh-ami --transport dc --threads 2       a server that handles on a thread, and\n"
    "  rh-ami --transport dc --threads 2 --mode counter --op put localhost\n"
    "                                          the counter in place of the mask\n"};

Expected<void> run(const Options& options, const EndpointConfig& config,
                   const stack::Arguments& arguments) {
  if (options.role() == Role::client) ROCKHOPPER_TRY(check_host(options.host));
  ROCKHOPPER_TRY(auto node, messages::Node::create(options, config, arguments));
  const std::uint64_t seed = options.endpoint.seed.value_or(roce::SystemRandom().next());
  auto result = options.role() == Role::client
                    ? run_side(Client(*node, options, seed), options.json)
                    : run_side(Server(*node, options), options.json);
  if (options.endpoint.stats_s > 0 || stop_requested()) node->print_statistics(stderr);
  return result;
}

}  // namespace

int program(int argc, char** argv) {
  CommandLine line(argc, argv, kText);
  Options options;
  add_options(line.app(), options);
  if (const auto status = line.parse()) return *status;
  return line.run(
      line.endpoint_config(options.endpoint, options.role(), options.path_mtu.value_or(0)),
      options.json, [&](const EndpointConfig& config, const stack::Arguments& arguments) {
        return run(options, config, arguments);
      });
}

}  // namespace rockhopper::apps::messages
