// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/program.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/command_line.h"
#include "apps/common/signals.h"
#include "apps/rh_publish/options.h"
#include "apps/rh_publish/server.h"

namespace rockhopper::apps::publish {

namespace {

const ProgramText kText{
    "rh-publish",
    "Publishes messages into stores in its memory, which any number of rh-subscribe read by RDMA "
    "READ, each at its own pace and without any work of the publisher.",
    "  journalctl -f | rh-publish              on one terminal, and\n"
    "  rh-subscribe localhost                  on another\n\n"
    "  rh-publish --store news=1MiB --store prices=64KiB:conflated:keys=100 \\\n"
    "      --input news=lines:news.txt --input prices=udp:5000 --policy policy.json\n\n"
    "  rh-publish --input pcap:day.pcap --speed 10 --store packets=64MiB:file=store\n"
    "                                          ten times as fast as it was captured\n"};

void print_result(const Server& server, bool json) {
  const nlohmann::json report = server.report();
  if (json) {
    fmt::print("{}\n", report.dump());
    return;
  }
  for (const auto& [name, store] : report["stores"].items()) {
    fmt::print("{}: {} messages, {} bytes\n", name, store["messages"].get<std::uint64_t>(),
               store["bytes"].get<std::uint64_t>());
  }
}

Expected<void> run(const Options& options, const EndpointConfig& config,
                   const stack::Arguments& arguments) {
  ROCKHOPPER_TRY(auto node, publish::Node::create(options, config, arguments));
  Expected<void> result;
  {
    Server server(*node, options);
    result = server.run();
    if (result) print_result(server, options.json);
  }
  if (options.endpoint.stats_s > 0) node->print_statistics(stderr);
  return result;
}

}  // namespace

int program(int argc, char** argv) {
  CommandLine line(argc, argv, kText);
  Options options;
  add_options(line.app(), options);
  if (const auto status = line.parse()) return *status;
  catch_reload_signal();
  return line.run(line.endpoint_config(options.endpoint, Role::server, options.path_mtu),
                  options.json,
                  [&](const EndpointConfig& config, const stack::Arguments& arguments) {
                    return run(options, config, arguments);
                  });
}

}  // namespace rockhopper::apps::publish
