// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors

/// The Rockhopper peer: the counterpart of rc_peer made by Rockhopper. Same script, same lines.
///
///   rh_rc_peer --device eth_vhost0,iface=/tmp/sock --ip 10.42.0.1/24            the server
///   rh_rc_peer --device ... --ip 10.42.0.1/24 -p PORT HOST                       the client
///
/// EAL arguments may come before `--`, as for every program.
#include <iostream>
#include <memory>
#include <vector>

#include "apps/common/endpoint.h"
#include "apps/common/endpoint_options.h"
#include "apps/common/option_set.h"
#include "tests/interop/rc_exchange.h"
#include "tests/interop/rc_main.h"
#include "tests/interop/rockhopper_endpoint.h"

namespace rockhopper::interop {
namespace {

struct Options {
  apps::EndpointOptions endpoint;
  bool ipv6 = false;
  bool statistics = false;
};

void add_options(CLI::App& app, Options& options) {
  apps::OptionSet::Checks none;  // make_endpoint_config() has them all
  apps::add_endpoint_options(apps::OptionSet(app, none), options.endpoint);
  app.remove_option(app.get_option("--seed"));  // the script has one
  app.add_option("--faults-seed", options.endpoint.seed, "What the faults are drawn from");
  app.add_flag("--ipv6", options.ipv6, "Connect with the first IPv6 address (the first IPv4 one)");
  app.add_flag("--statistics", options.statistics, "Print every counter at the end (stderr)");
}

std::unique_ptr<Endpoint> make_endpoint(const Options& options, const stack::Arguments& arguments) {
  const auto config = apps::make_endpoint_config(
      options.endpoint,
      {.role = apps::Role::server, .use_eal_ports = !arguments.embedded, .path_mtu = 0});
  if (!config) throw Failure(config.error().message);
  auto packets = apps::Endpoint::create(*config, arguments);
  if (!packets) throw Failure(packets.error().message);
  return std::make_unique<RockhopperEndpoint>(std::move(*packets), !options.ipv6,
                                              options.statistics);
}

}  // namespace
}  // namespace rockhopper::interop

int main(int argc, char** argv) {
  using namespace rockhopper::interop;
  const auto arguments = rockhopper::stack::split_arguments(argc, argv);
  std::vector<std::string> own = arguments.application;
  std::vector<char*> own_argv{argv[0]};
  for (std::string& argument : own) {
    own_argv.push_back(argument.data());
  }
  Options options;
  return rc_main(
      static_cast<int>(own_argv.size()), own_argv.data(),
      "Verifies an RC connection made by Rockhopper with a script of operations",
      [&options](CLI::App& app) { add_options(app, options); },
      [&] { return make_endpoint(options, arguments); });
}
