// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/command_line.h"
#include "apps/common/endpoint.h"
#include "apps/common/option_set.h"
#include "apps/common/signals.h"
#include "examples/accounts/accounts.h"

namespace {

using namespace rockhopper;
using namespace rockhopper::apps;
using namespace rockhopper::apps::accounts;

const ProgramText kText{
    "rh-accounts",
    "A table of accounts in a server's memory. Clients transfer between two accounts in one round "
    "trip, under locks that the server's transport takes for them, and audit the whole table under "
    "one lock; threads of the server do the same.",
    "  rh-accounts --threads 2                  on one terminal, and\n"
    "  rh-accounts -n 100000 -q 8 10.42.0.1     on another\n\n"
    "  rh-accounts -n 10000 -q 8 --standard 10.42.0.1\n"
    "                                           the same by compare and swap\n"};

void add_options(const OptionSet& app, Options& options) {
  app.add_option("host ADDR", options.host,
                 "RDMA address of the server (IPv4 or IPv6); without it, be the server");
  app.add_option("-p,--port", options.port, "port of the service ID");
  app.add_flag("--standard", options.standard,
               "offer no locks at the target: clients use compare and swap, as they must with "
               "other responders");
  app.add_option("--accounts", options.accounts, "server: number of accounts")
      .range(kAccountsMin, kAccountsMax);
  app.add_option("--initial", options.initial, "server: balance of each account")
      .range(1, 1'000'000'000);
  app.add_option("--threads", options.threads, "server: threads of its own that transfer too")
      .range(0, 64);
  app.add_option("--lease", options.lease_us,
                 "server: microseconds for which a lock is held before the whole scope is there")
      .range(1, 10'000'000);
  app.add_option("--clients", options.clients,
                 "server: end when so many connections have come and gone; default: with a signal");
  app.add_option("-n,--transfers", options.transfers, "client: transfers to do");
  app.add_option("-q,--connections", options.connections, "client: connections that share them")
      .range(1, 1024);
  app.add_option("--audit-every", options.audit_every,
                 "client: transfers of a connection between two audits; 0: one at the end");
  app.add_option("--hot", options.hot, "client: use the first so many accounts only")
      .range(2, 1024);
  app.add_option("--wait", options.wait_us, "client: microseconds for which a scope may wait");
  add_ack_timeout_option(app, "-a,--ack-timeout", options.ack_timeout);
  add_seconds_option(app, "--timeout", options.timeout_s,
                     "client: give up when no answer comes for so long");
  app.add_flag("--json", options.json, "print the result as JSON");
  add_endpoint_options(app, options.endpoint);
}

void report(const Options& options, const nlohmann::json& result) {
  if (options.json) {
    fmt::print("{}\n", result.dump());
  } else if (options.role() == Role::server) {
    fmt::print("rh-accounts: {} transfers by clients and threads, the balances add up to {}\n",
               result["transfers"].get<std::uint64_t>(), result["sum"].get<std::int64_t>());
  } else {
    fmt::print(
        "rh-accounts: {} transfers in {:.3f} seconds, {:.0f} a second, {} audits, {}\n",
        result["transfers"].get<std::uint64_t>(), result["seconds"].get<double>(),
        result["transfers_per_second"].get<double>(), result["audits"].get<std::uint64_t>(),
        result["locks_at_target"].get<bool>() ? "locks at the target" : "by compare and swap");
  }
}

Expected<void> run(const Options& options, const EndpointConfig& config,
                   const stack::Arguments& arguments) {
  ROCKHOPPER_TRY(auto endpoint, Endpoint::create(config, arguments));
  if (options.role() == Role::client) ROCKHOPPER_TRY(endpoint->wait_for_link());
  ROCKHOPPER_TRY(auto node, CmNode::create(*endpoint, {.timeout_s = options.timeout_s,
                                                       .pkey_index = options.endpoint.pkey_index}));
  auto result = options.role() == Role::server ? serve(*node, options) : transfer(*node, options);
  if (result) report(options, *result);
  if (options.endpoint.stats_s > 0) node->print_statistics(stderr);
  ROCKHOPPER_TRY(result);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line(argc, argv, kText);
  Options options;
  add_options(line.app(), options);
  if (const auto status = line.parse()) return *status;
  return line.run(line.endpoint_config(options.endpoint, options.role(), 0), options.json,
                  [&](const EndpointConfig& config, const stack::Arguments& arguments) {
                    return run(options, config, arguments);
                  });
}
