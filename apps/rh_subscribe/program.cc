// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_subscribe/program.h"

#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/command_line.h"
#include "apps/common/signals.h"
#include "apps/rh_subscribe/client.h"
#include "apps/rh_subscribe/options.h"

namespace rockhopper::apps::subscribe {

namespace {

const ProgramText kText{
    "rh-subscribe",
    "Reads the messages of rh-publish out of its stores, by RDMA READ and at its own pace. What "
    "was "
    "overwritten before it could be read is reported, as \"STORE: lost FIRST-LAST\".",
    "  rh-subscribe localhost                  all stores, what comes from now on\n"
    "  rh-subscribe --list localhost           which stores there are\n"
    "  rh-subscribe --store news --from oldest --format json localhost\n"
    "  rh-subscribe --name ann --secret-file ann.key --store prices --from 10s \\\n"
    "      --output folder --json localhost\n"};

Expected<void> run(const Options& options, const EndpointConfig& config,
                   const stack::Arguments& arguments) {
  Client client(options);
  auto result = client.run(config, arguments);
  if (result && options.json) fmt::print("{}\n", client.report().dump());
  if (options.endpoint.stats_s > 0) client.print_statistics(stderr);
  return result;
}

std::uint64_t wall_now_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace

int program(int argc, char** argv) {
  CommandLine line(argc, argv, kText);
  Options options;
  add_options(line.app(), options, wall_now_ns());
  if (const auto status = line.parse()) return *status;
  return line.run(line.endpoint_config(options.endpoint, Role::client, options.path_mtu),
                  options.json,
                  [&](const EndpointConfig& config, const stack::Arguments& arguments) {
                    return run(options, config, arguments);
                  });
}

}  // namespace rockhopper::apps::subscribe
