// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_pingpong/program.h"

#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/command_line.h"
#include "apps/common/endpoint.h"
#include "apps/common/signals.h"
#include "apps/common/tcp.h"
#include "apps/rh_pingpong/options.h"
#include "apps/rh_pingpong/session.h"

namespace rockhopper::apps::pingpong {

namespace {

const ProgramText kText{
    "rh-pingpong",
    "Ping-pong over a queue pair, with the options and the out-of-band exchange of "
    "ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong and ibv_srq_pingpong: either end may be "
    "that tool. Or over dynamic connections, between two of its own.",
    "  rh-pingpong -c               on one terminal, and\n"
    "  rh-pingpong -c localhost     on another: over a memif link\n\n"
    "  rh-pingpong -c --device net_af_packet0,iface=eth1 --ip 192.168.7.1/24\n"
    "                               here, and on another machine\n"
    "  ibv_rc_pingpong -c -g 1 HOST\n\n"
    "  rh-pingpong -s 1048576 -m 4096 -n 100 --faults loss=1% --pcap run.pcapng HOST\n\n"
    "  rh-pingpong -c --transport dc -q 8             initiators with 8 targets each\n"
    "  rh-pingpong -c --transport dc -q 8 localhost\n"};

nlohmann::json to_json(const Destination& destination) {
  return {{"qpn", destination.qpn.value},
          {"psn", destination.psn.value},
          {"gid", destination.gid.to_string()}};
}

void report(const Options& options, const Result& result) {
  const double bytes =
      static_cast<double>(options.size) * static_cast<double>(options.iterations) * 2;
  const double mbit_per_s = bytes * 8e-6 / result.seconds;
  const double us = result.seconds * 1e6 / static_cast<double>(options.iterations);
  if (options.json) {
    const nlohmann::json object{{"program", "rh-pingpong"},
                                {"transport", title_of(options.transport)},
                                {"queue_pairs", options.queue_pairs},
                                {"role", options.role() == Role::server ? "server" : "client"},
                                {"size", options.size},
                                {"path_mtu", options.path_mtu},
                                {"iterations", options.iterations},
                                {"messages_checked", result.messages_checked},
                                {"seconds", result.seconds},
                                {"mbit_per_s", mbit_per_s},
                                {"us_per_iteration", us},
                                {"local", to_json(result.local[0])},
                                {"remote", to_json(result.remote[0])}};
    fmt::print("{}\n", object.dump());
    return;
  }
  fmt::print("{:.0f} bytes in {:.2f} seconds = {:.2f} Mbit/sec\n", bytes, result.seconds,
             mbit_per_s);
  fmt::print("{} iters in {:.2f} seconds = {:.2f} usec/iter\n", options.iterations, result.seconds,
             us);
  if (options.check) fmt::print("{} messages checked\n", result.messages_checked);
}

Expected<EndpointConfig> endpoint_config(const Options& options, const CommandLine& line) {
  ROCKHOPPER_TRY(auto config,
                 line.endpoint_config(options.endpoint, options.role(), options.path_mtu));
  if (!options.gid_index || *options.gid_index < config.addresses.size()) return config;
  std::string table;
  for (const InterfaceAddress& item : config.addresses) {
    table += (table.empty() ? "" : ", ") + item.address.to_string();
  }
  return fail(ErrorCode::invalid_argument, "--gid-idx {}: own addresses are, from 0 on: {}",
              *options.gid_index, table);
}

Expected<void> run(const Options& options, const EndpointConfig& config,
                   const stack::Arguments& arguments) {
  if (options.role() == Role::client) ROCKHOPPER_TRY(check_host(options.host));
  ROCKHOPPER_TRY(auto endpoint, Endpoint::create(config, arguments));
  Session session(*endpoint, options);
  auto result = session.run();
  if (result) report(options, *result);
  if (options.endpoint.stats_s > 0 || stop_requested()) {
    endpoint->print_statistics(stderr);
    session.print_statistics();
  }
  ROCKHOPPER_TRY(result);
  return {};
}

}  // namespace

int program(int argc, char** argv) {
  CommandLine line(argc, argv, kText);
  Options options;
  add_options(line.app(), options);
  if (const auto status = line.parse()) return *status;
  return line.run(endpoint_config(options, line), options.json,
                  [&](const EndpointConfig& config, const stack::Arguments& arguments) {
                    return run(options, config, arguments);
                  });
}

}  // namespace rockhopper::apps::pingpong
