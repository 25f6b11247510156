// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/clients.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace rockhopper::apps::dag_node {

Clients::Clients(StoreNode& node) : node_(node) {
  node_.set_on_fenced([this](dag::ClientId id) { on_fenced(id); });
}

Clients::~Clients() {
  node_.set_on_fenced({});
  for (GreetedClient& client : clients()) dismiss(client);
}

Expected<GreetedClient> Clients::greet(TcpConnection connection) {
  GreetedClient client{{.channel = ControlChannel(std::move(connection), node_)}, node_.offer()};
  client.gone = !client.channel.send("offer", to_json(client.offer));
  return client;
}

Expected<void> Clients::admit(GreetedClient& client, const nlohmann::json& hello) {
  ROCKHOPPER_TRY(auto found, hello_from_json(hello, client.offer));
  ROCKHOPPER_TRY(auto welcome, node_.admit(found));
  client.id = dag::ClientId{welcome.grant.client};
  client.admitted = true;
  return client.channel.send("welcome", to_json(welcome));
}

void Clients::print_refusal(const GreetedClient& /*client*/, const Error& why) {
  fmt::print(stderr, "a client was sent away: {}\n", why.message);
}

void Clients::dismiss(GreetedClient& client) {
  if (client.id) node_.dismiss(*client.id);
  client.id.reset();
}

void Clients::on_fenced(dag::ClientId id) {
  const auto found = std::find_if(clients().begin(), clients().end(),
                                  [&](const GreetedClient& client) { return client.id == id; });
  if (found == clients().end()) return;
  ++fenced_;
  fmt::print(stderr, "client {} was fenced: it was silent for too long, or cannot be reached\n",
             static_cast<std::uint32_t>(id));
  found->id.reset();
  found->gone = true;
}

}  // namespace rockhopper::apps::dag_node
