// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/common/control_server.h"
#include "apps/common/signals.h"
#include "apps/common/version.h"
#include "apps/rh_dag/commands.h"
#include "apps/rh_dag/store_node.h"
#include "apps/services/dag/map.h"
#include "apps/services/dag/record.h"

namespace rockhopper::apps::dag_node {
namespace {

constexpr std::uint64_t kTurnsPerLook = 4;
constexpr std::uint64_t kHourNs = 3'600'000'000'000;
constexpr Range kMemory{.least = 1u << 16, .most = std::uint64_t{1} << 40};
constexpr Range kServedRecordMax{.least = 64, .most = dag::kCapacityMax};
constexpr Range kQuarantine{.least = 0, .most = kHourNs};
constexpr Range kLease{.least = 1'000'000, .most = kHourNs};

void add_serve_options(const OptionSet& app, ServeOptions& options) {
  const OptionSet records = app.group("Records");
  records.add_bytes("--memory BYTES", options.memory_bytes, "256MiB", kMemory,
                    "for records, as 64MiB or 4GB");
  records.add_option("--records N", options.records, "records at a time, at most")
      .range(std::uint32_t{1}, dag::Map::kRecordsMax);
  records.add_bytes("--record-max BYTES", options.record_max, kRecordMax, kServedRecordMax,
                    "data of one record, at most");
  records
      .add_option("--hash-bits N", options.hash_bits,
                  "of a key's hash that the map goes by; with few, keys collide often")
      .range(1, 64);
  records.add_time("--quarantine TIME", options.quarantine_ns, "500ms", kQuarantine,
                   "for which freed memory rests at least, as 500ms or 2s");
  const OptionSet clients = app.group("Clients");
  clients.add_option("-p,--port", options.port,
                     "TCP port by which clients connect; 0: the system chooses");
  clients.add_time("--lease TIME", options.lease_ns, "1s", kLease,
                   "a client that is silent for so long is fenced: 1ms to 3600s");
  clients.add_option("--max-clients N", options.clients_max, "at a time").range(1, 4096);
  add_path_mtu_option(clients, options.path_mtu, "largest path MTU. Default: what the link allows");
  add_ack_timeout_option(clients, "-u,--qp-timeout", options.ack_timeout);
  const OptionSet runs = app.group("Runs of graphs");
  runs.add_option("--runs N", options.runs, "at a time, those that have ended included")
      .range(1, 256);
  runs.add_option("--workers N", options.workers, "at a time").range(1, 4096);
  app.add_flag("--json", options.json, "print the result as JSON");
  add_endpoint_options(app, options.endpoint);
}

struct GreetedClient : ControlClient {
  Offer offer{};
  std::optional<dag::ClientId> id{};
};

/// The clients that have come to a server by TCP. A client whose connection has ended is gone, and
/// fenced at once.
class Clients final : public ControlServer<GreetedClient> {
 public:
  /// The node must outlive it, and tells it alone who was fenced.
  explicit Clients(StoreNode& node) : node_(node) {
    node_.set_on_fenced([this](dag::ClientId id) { on_fenced(id); });
  }
  ~Clients() override {
    node_.set_on_fenced({});
    for (GreetedClient& client : clients()) {
      dismiss(client);
    }
  }

  [[nodiscard]] std::uint64_t fenced() const { return fenced_; }

 private:
  [[nodiscard]] Expected<GreetedClient> greet(TcpConnection connection) override {
    GreetedClient client{{.channel = ControlChannel(std::move(connection), node_)}, node_.offer()};
    client.gone = !client.channel.send("offer", fields_to_json(client.offer));
    return client;
  }

  [[nodiscard]] Expected<void> admit(GreetedClient& client, const nlohmann::json& said) override {
    ROCKHOPPER_TRY(auto hello, hello_from_json(said, client.offer));
    ROCKHOPPER_TRY(auto welcome, node_.admit(hello));
    client.id = dag::ClientId{welcome.grant.client};
    client.admitted = true;
    return client.channel.send("welcome", fields_to_json(welcome));
  }

  void print_refusal(const GreetedClient& /*client*/, const Error& why) override {
    fmt::print(stderr, "a client was sent away: {}\n", why.message);
  }

  void dismiss(GreetedClient& client) override {
    if (client.id) node_.dismiss(*client.id);
    client.id.reset();
  }

  void on_fenced(dag::ClientId id) {
    const auto found = std::find_if(clients().begin(), clients().end(),
                                    [&](const GreetedClient& client) { return client.id == id; });
    if (found == clients().end()) return;
    ++fenced_;
    fmt::print(stderr, "client {} was fenced: it was silent for too long, or cannot be reached\n",
               static_cast<std::uint32_t>(id));
    found->id.reset();
    found->gone = true;
  }

  StoreNode& node_;
  std::uint64_t fenced_ = 0;
};

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
    ROCKHOPPER_TRY(clients.turn(node.update_time()));
  }
  return {};
}

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

class ServeCommand final : public Command {
 public:
  explicit ServeCommand(const OptionSet& app)
      : Command(app, "serve",
                "Keeps records in its memory, which clients read and update by RDMA.") {
    add_serve_options(options(), serve_options_);
  }
  [[nodiscard]] ExitStatus run(const CommandLine& line) override {
    return line.run(
        line.endpoint_config(serve_options_.endpoint, Role::server, serve_options_.path_mtu),
        serve_options_.json,
        [this](const EndpointConfig& config, const stack::Arguments& arguments) {
          return serve(serve_options_, config, arguments);
        });
  }

 private:
  ServeOptions serve_options_;
};

}  // namespace

void add_serve_command(const OptionSet& app, Commands& commands) {
  commands.push_back(std::make_unique<ServeCommand>(app));
}

}  // namespace rockhopper::apps::dag_node
