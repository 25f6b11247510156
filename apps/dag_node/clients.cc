// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/dag_node/clients.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace rockhopper::apps::dag_node {

Clients::Clients(StoreNode& node) : node_(node) {
  node_.set_on_fenced([this](dag::ClientId id) { on_fenced(id); });
}

Clients::~Clients() {
  node_.set_on_fenced({});
  for (Client& client : clients_) dismiss(client);
}

Expected<void> Clients::listen(std::uint16_t port) {
  auto listener = TcpListener::open(port);
  if (!listener) return tl::make_unexpected(listener.error());
  fmt::print(stderr, "listening on TCP port {}\n", listener->port());
  listener_.emplace(std::move(*listener));
  return {};
}

Expected<void> Clients::turn(std::uint64_t now_ns) {
  if (now_ns < next_look_ns_) return {};
  next_look_ns_ = now_ns + kLookNs;
  if (auto accepted = accept(now_ns); !accepted) return accepted;
  for (auto client = clients_.begin(); client != clients_.end();) {
    if (serve(*client, now_ns)) {
      ++client;
    } else {
      dismiss(*client);
      client = clients_.erase(client);
    }
  }
  return {};
}

Expected<void> Clients::accept(std::uint64_t now_ns) {
  const auto greeted = static_cast<std::size_t>(
      std::count_if(clients_.begin(), clients_.end(),
                    [](const Client& client) { return !client.id.has_value(); }));
  for (std::size_t i = greeted; i < kGreetedMax; ++i) {
    auto connection = listener_->poll_accept();
    if (!connection) return tl::make_unexpected(connection.error());
    if (!*connection) return {};
    Client& client =
        clients_.emplace_back(Client{.channel = ControlChannel(std::move(**connection), node_),
                                     .deadline_ns = now_ns + kGreetingNs,
                                     .offer = node_.offer()});
    if (!client.channel.send("offer", to_json(client.offer))) client.gone = true;
  }
  return {};
}

bool Clients::serve(Client& client, std::uint64_t now_ns) {
  if (client.gone) return false;
  auto message = client.channel.poll();
  if (!message) return false;  // it has closed the connection, or speaks another language
  if (!*message) return client.id || now_ns < client.deadline_ns;
  if (client.id || (*message)->type != "hello") return false;
  if (auto answered = answer(client, (*message)->body); !answered) {
    ++refused_;
    fmt::print(stderr, "a client was sent away: {}\n", answered.error().message);
    client.channel.send_error(answered.error());
    return false;
  }
  return true;
}

Expected<void> Clients::answer(Client& client, const nlohmann::json& body) {
  auto hello = hello_from_json(body, client.offer);
  if (!hello) return tl::make_unexpected(hello.error());
  auto welcome = node_.admit(*hello);
  if (!welcome) return tl::make_unexpected(welcome.error());
  client.id = dag::ClientId{welcome->grant.client};
  ++admitted_;
  return client.channel.send("welcome", to_json(*welcome));
}

void Clients::dismiss(Client& client) {
  if (client.id) node_.dismiss(*client.id);
  client.id.reset();
}

void Clients::on_fenced(dag::ClientId id) {
  const auto found = std::find_if(clients_.begin(), clients_.end(),
                                  [&](const Client& client) { return client.id == id; });
  if (found == clients_.end()) return;
  ++fenced_;
  fmt::print(stderr, "client {} was fenced: it was silent for too long, or cannot be reached\n",
             static_cast<std::uint32_t>(id));
  found->id.reset();
  found->gone = true;
}

}  // namespace rockhopper::apps::dag_node
