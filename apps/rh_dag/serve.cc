// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/serve.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/signals.h"
#include "apps/common/version.h"
#include "apps/rh_dag/clients.h"
#include "apps/rh_dag/store_node.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr std::uint64_t kTurnsPerLook = 4;

void print_result(const StoreNode& node, const Clients& clients, bool json) {
  nlohmann::json report = node.report();
  if (!json) {
    fmt::print("{} records, {} clients admitted, {} fenced\n",
               report["records"].get<std::uint64_t>(), clients.admitted(), clients.fenced());
    return;
  }
  report["program"] = "rh-dag";
  report["version"] = kVersion;
  report["clients"] = {{"admitted", clients.admitted()},
                       {"refused", clients.refused()},
                       {"fenced", clients.fenced()}};
  fmt::print("{}\n", report.dump());
}

Expected<void> serve(StoreNode& node, Clients& clients) {
  for (std::uint64_t turns = 0; !stop_requested(); ++turns) {
    (void)node.turn();
    if (turns % kTurnsPerLook != 0) continue;
    if (take_pause_request()) {
      node.set_stopped(!node.stopped());
      fmt::print(stderr, "{}\n",
                 node.stopped() ? "stopped: packets move on, and nobody is answered" : "goes on");
    }
    if (node.stopped()) continue;
    ROCKHOPPER_TRY(clients.turn(node.now_ns()));
  }
  return {};
}

}  // namespace

Expected<void> serve(const ServeOptions& options, const EndpointConfig& config,
                     const stack::Arguments& arguments) {
  catch_pause_signal();
  ROCKHOPPER_TRY(auto node, StoreNode::create(options, config, arguments));
  Expected<void> result;
  {
    Clients clients(*node);
    result = clients.listen(options.port).and_then([&] { return serve(*node, clients); });
    if (result) print_result(*node, clients, options.json);
  }
  if (options.endpoint.stats_s > 0) node->print_statistics(stderr);
  return result;
}

}  // namespace rockhopper::apps::dag_node
