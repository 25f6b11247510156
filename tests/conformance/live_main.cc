// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors

/// Rockhopper behind a port of DPDK as a device: commands on standard input, packets on the port.
#include <cstdio>
#include <memory>
#include <utility>

#include <rte_ethdev.h>

#include "apps/common/command_line.h"
#include "apps/common/endpoint.h"
#include "apps/common/endpoint_options.h"
#include "tests/conformance/device_server.h"
#include "tests/conformance/engine_device.h"

namespace rockhopper::conformance {
namespace {

Expected<void> run(const apps::EndpointOptions& options, const stack::Arguments& arguments) {
  auto config = apps::make_endpoint_config(
      options,
      {.role = apps::Role::server, .use_eal_ports = !arguments.embedded, .path_mtu = 4096});
  if (!config) return tl::make_unexpected(config.error());
  auto endpoint = apps::Endpoint::create(*config, arguments);
  if (!endpoint) return tl::make_unexpected(endpoint.error());
  apps::Endpoint& port = **endpoint;
  EngineDevice::Config device_config{
      .engine = &port.engine(), .host = &port.host(), .mac = {}, .addresses = {}};
  std::uint16_t id = 0;
  if (rte_eth_dev_get_port_by_name(port.port_name().c_str(), &id) != 0 ||
      rte_eth_macaddr_get(id, &device_config.mac) != 0) {
    return fail(ErrorCode::io, "the port does not tell its MAC address");
  }
  for (const InterfaceAddress& address : port.addresses()) {
    device_config.addresses.push_back(address.address);
  }
  EngineDevice device(std::move(device_config));
  DeviceServer server(device);
  serve(server, [&port] { port.turn(); });
  return {};
}

}  // namespace
}  // namespace rockhopper::conformance

int main(int argc, char** argv) {
  using namespace rockhopper;
  apps::CommandLine command_line(argc, argv,
                                 {.name = "conformance-live",
                                  .summary = "A Rockhopper port as a device of tests/conformance",
                                  .examples = ""});
  apps::EndpointOptions options;
  apps::add_endpoint_options(command_line.app(), options, "--device");
  if (const auto status = command_line.parse()) return static_cast<int>(*status);
  return static_cast<int>(command_line.finish(conformance::run(options, command_line.arguments())));
}
