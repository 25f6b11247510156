// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/services/dag/client.h"
#include "apps/services/dag/server.h"
#include "apps/services/dag/store.h"
#include "dc/endpoint.h"
#include "tests/sim/sim_network.h"

namespace rockhopper::sim {

struct DagWorldConfig {
  NetworkConfig network;
  unsigned servers = 1;
  unsigned clients = 2;
  std::uint64_t memory_bytes = 1 << 20;  ///< of each server
  std::uint32_t contexts = 256;          ///< of sessions, at each node
  dag::StoreConfig store{.quarantine_ns = 1'000'000};
  dag::ServerConfig server{.lease_ns = 20'000'000, .timeout = 9};
  dag::ClientConfig client{.operations = 16, .buffer_bytes = 16384, .timeout = 9};
  dag::PlacementPolicy placement = dag::PlacementPolicy::hash;
  std::vector<dag::PlacementRule> rules;
};

/// A server with its store, and what it has told.
struct DagServer final : dag::ServerListener {
  void on_fenced(dag::ClientId id) override { fenced.push_back(id); }

  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines;
  std::unique_ptr<dag::Store> store;
  std::unique_ptr<dag::Server> server;
  std::vector<dag::ClientId> fenced;
  bool stopped = false;  ///< its application stands still; its engine does not
};

/// A client, and what it has told: kept, or given to `handler`.
struct DagClient final : dag::ClientListener {
  struct Kept {
    dag::Result result;
    std::vector<std::byte> data;
  };
  void on_result(const dag::Result& result) override {
    if (handler) return handler(result);
    kept.push_back({result, {result.data.begin(), result.data.end()}});
    kept.back().result.data = {};
  }
  void on_server_lost(std::uint16_t server) override { lost.push_back(server); }

  std::unique_ptr<dag::Client> client;
  std::vector<dag::ClientId> ids;  ///< by server
  std::function<void(const dag::Result&)> handler;
  std::vector<Kept> kept;
  std::vector<std::uint16_t> lost;
  bool stopped = false;
};

/// Servers at node 0 of a simulated network, clients at node 1, all connected.
class DagWorld {
 public:
  explicit DagWorld(const DagWorldConfig& config);
  ~DagWorld();

  /// With what the server has granted, or what `change` has made of it.
  void connect(DagClient& client, std::uint16_t server,
               const std::function<void(dag::Grant&)>& change = {});
  /// One turn of everybody. True if anything happened.
  bool turn();
  /// Turns, and time as it is needed, until `done`. False: not within `limit_ns`.
  template <typename Done>
  [[nodiscard]] bool run_until(const Done& done, std::uint64_t limit_ns = 10'000'000'000) {
    const std::uint64_t limit_at_ns = network.now_ns() + limit_ns;
    while (!done()) {
      if (network.now_ns() >= limit_at_ns) return false;
      if (!turn()) pass_time(limit_at_ns);
    }
    return true;
  }
  void pass_time(std::uint64_t limit_ns);
  void run_for(std::uint64_t duration_ns) {
    (void)run_until([] { return false; }, duration_ns);
  }
  /// Runs an operation of a client to its end. Aborts if it does not begin or end.
  [[nodiscard]] DagClient::Kept run(DagClient& client,
                                    const std::function<dag::Started(dag::Client&)>& operation);

  DagWorldConfig config;
  SimNetwork network;
  std::array<std::unique_ptr<dc::Endpoint>, 2> endpoints;
  std::vector<std::unique_ptr<DagServer>> servers;
  std::vector<std::unique_ptr<DagClient>> clients;
};

[[nodiscard]] inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace rockhopper::sim
