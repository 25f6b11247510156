// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/dag/world.h"

#include <algorithm>

namespace rockhopper::sim {

DagWorld::DagWorld(const DagWorldConfig& world_config)
    : config(world_config), network(world_config.network) {
  for (unsigned i = 0; i < 2; ++i) {
    dc::EndpointConfig endpoint;
    endpoint.sessions.contexts = config.contexts;
    endpoints[i] = must(dc::Endpoint::create(network.node(i).engine(), endpoint));
  }
  for (unsigned i = 0; i < config.servers; ++i) {
    auto server = std::make_unique<DagServer>();
    server->lines.resize(config.memory_bytes / sizeof(DagServer::Line));
    server->store = must(dag::Store::create(
        {server->lines[0].bytes, server->lines.size() * sizeof(DagServer::Line)}, config.store));
    server->server = must(dag::Server::create(network.node(0).engine(), *endpoints[0],
                                              *server->store, *server, config.server));
    servers.push_back(std::move(server));
  }
  for (unsigned i = 0; i < config.clients; ++i) {
    auto client = std::make_unique<DagClient>();
    client->client = must(dag::Client::create(
        network.node(1).engine(), *endpoints[1],
        must(dag::Placement::create(config.placement, static_cast<std::uint16_t>(config.servers),
                                    config.rules)),
        *client, config.client));
    client->ids.resize(config.servers);
    for (std::uint16_t server = 0; server < config.servers; ++server) {
      connect(*client, server);
    }
    clients.push_back(std::move(client));
  }
}

DagWorld::~DagWorld() {
  clients.clear();
  for (const auto& server : servers) {
    server->server.reset();
  }
}

void DagWorld::connect(DagClient& client, std::uint16_t server,
                       const std::function<void(dag::Grant&)>& change) {
  const auto av = [this](unsigned from) {
    return roce::AddressVector{.source = network.node(from).address(),
                               .destination = network.node(1 - from).address()};
  };
  const dc::Dct& target = client.client->target(server);
  dag::Grant grant = must(servers[server]->server->add_client(
      {.av = av(0), .number = target.number(), .access_key = target.access_key()},
      network.now_ns()));
  client.ids[server] = dag::ClientId{grant.client};
  if (change) change(grant);
  must(client.client->connect(server, av(1), grant, network.now_ns()));
}

bool DagWorld::turn() {
  bool moved = network.poll();
  for (const auto& server : servers) {
    if (!server->stopped) moved = server->server->progress(network.now_ns()) || moved;
  }
  for (const auto& client : clients) {
    if (!client->stopped) moved = client->client->progress(network.now_ns()) || moved;
  }
  return moved;
}

void DagWorld::pass_time(std::uint64_t limit_ns) {
  std::uint64_t next_ns = limit_ns;
  for (const auto& server : servers) {
    if (!server->stopped) next_ns = std::min(next_ns, server->server->next_deadline_ns());
  }
  for (const auto& client : clients) {
    if (!client->stopped) next_ns = std::min(next_ns, client->client->next_deadline_ns());
  }
  next_ns = std::max(next_ns, network.now_ns() + 100);
  if (!network.advance(next_ns)) network.advance_to(next_ns);
}

DagClient::Kept DagWorld::run(DagClient& client,
                              const std::function<dag::Started(dag::Client&)>& operation) {
  const std::size_t before = client.kept.size();
  if (operation(*client.client) != dag::Started::yes) die("an operation did not begin");
  if (!run_until([&] { return client.kept.size() > before; })) die("an operation did not end");
  return client.kept.back();
}

}  // namespace rockhopper::sim
