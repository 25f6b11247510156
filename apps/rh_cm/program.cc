// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_cm/program.h"

#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/command_line.h"
#include "apps/common/endpoint.h"
#include "apps/common/signals.h"
#include "apps/rh_cm/options.h"
#include "apps/rh_cm/programs.h"

namespace rockhopper::apps::cm {

namespace {

const ProgramText kText{
    "rh-cm",
    "Connects through the connection manager, as rdma_cm does, and does what rping, ucmatose, "
    "udaddy, mckey or rdma_client and rdma_server do: either end may be that program.",
    "  rh-cm -V                     on one terminal, and\n"
    "  rh-cm -V -C 10 10.42.0.1     on another: ten pings over a memif link\n\n"
    "  rh-cm --as ucmatose --device net_af_packet0,iface=eth1 --ip 192.168.7.1/24\n"
    "                               here, and on another machine\n"
    "  ucmatose -s 192.168.7.1\n\n"
    "  rh-cm --as udaddy -c 4 192.168.7.2\n\n"
    "  rh-cm --as mckey 239.1.2.3   receives what goes to a multicast group, and\n"
    "  rh-cm --as mckey --sender 239.1.2.3  sends it\n"};

void report(const Options& options, const Result& result) {
  if (options.json) {
    const nlohmann::json object{{"program", "rh-cm"},
                                {"as", name_of(options.play)},
                                {"role", options.role() == Role::server ? "server" : "client"},
                                {"size", options.message_size()},
                                {"connections", result.connections},
                                {"messages", result.messages},
                                {"messages_checked", result.checked},
                                {"seconds", result.seconds}};
    fmt::print("{}\n", object.dump());
    return;
  }
  fmt::print("{}: {} {} over {} connection{} in {:.3f} seconds{}\n", name_of(options.play),
             result.messages, options.play == Play::rping ? "pings" : "messages received",
             result.connections, result.connections == 1 ? "" : "s", result.seconds,
             result.checked > 0 ? fmt::format(", {} checked", result.checked) : "");
}

Expected<Result> play(cm::Node& node) {
  switch (node.options().play) {
    case Play::rping:
      return run_rping(node);
    case Play::ucmatose:
      return run_ucmatose(node);
    case Play::udaddy:
      return run_udaddy(node);
    case Play::mckey:
      return run_mckey(node);
    case Play::rdma_client:
      break;
  }
  return run_rdma_client(node);
}

Expected<void> run(const Options& options, const EndpointConfig& config,
                   const stack::Arguments& arguments) {
  ROCKHOPPER_TRY(auto endpoint, Endpoint::create(config, arguments));
  if (options.role() == Role::client) ROCKHOPPER_TRY(endpoint->wait_for_link());
  ROCKHOPPER_TRY(auto node, cm::Node::create(*endpoint, options));
  auto result = play(*node);
  if (result) report(options, *result);
  if (options.endpoint.stats_s > 0 || stop_requested()) node->print_statistics(stderr);
  ROCKHOPPER_TRY(result);
  return {};
}

}  // namespace

int program(int argc, char** argv) {
  CommandLine line(argc, argv, kText);
  Options options;
  add_options(line.app(), options);
  if (const auto status = line.parse()) return *status;
  return line.run(line.endpoint_config(options.endpoint, options.role(), options.path_mtu),
                  options.json,
                  [&](const EndpointConfig& config, const stack::Arguments& arguments) {
                    return run(options, config, arguments);
                  });
}

}  // namespace rockhopper::apps::cm
