// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/publish/clients.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "apps/publish/proof.h"

namespace rockhopper::apps::publish {
namespace {

/// For people: names from the wire have been checked, but need not be there.
std::string_view called(const std::string& name) {
  return name.empty() ? std::string_view("(no name)") : std::string_view(name);
}

}  // namespace

Clients::~Clients() {
  for (Client& client : clients_) dismiss(client);
}

const AccessPolicy& Clients::policy() const {
  return policy_file_ == nullptr ? open_ : policy_file_->policy();
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
                    [](const Client& client) { return !client.admitted.has_value(); }));
  for (std::size_t i = greeted; i < kGreetedMax; ++i) {
    auto connection = listener_->poll_accept();
    if (!connection) return tl::make_unexpected(connection.error());
    if (!*connection) return {};
    auto nonce = make_nonce();
    if (!nonce) return tl::make_unexpected(nonce.error());
    Client& client =
        clients_.emplace_back(Client{.channel = ControlChannel(std::move(**connection), node_),
                                     .deadline_ns = now_ns + kGreetingNs,
                                     .challenge = node_.challenge(std::move(*nonce))});
    client.challenge_sent = to_json(client.challenge);
    if (!client.channel.send("challenge", client.challenge_sent)) client.gone = true;
  }
  return {};
}

bool Clients::serve(Client& client, std::uint64_t now_ns) {
  if (client.gone) {
    if (client.admitted) {
      // It is not told why: a READ that was on its way when a grant ended is no offence, and it
      // may come again.
      fmt::print(stderr, "{}: its connection has ended\n", called(client.name));
    }
    return false;
  }
  auto message = client.channel.poll();
  if (!message) return false;  // it has closed the connection, or speaks another language
  if (!*message) return client.admitted || now_ns < client.deadline_ns;
  if (client.admitted || (*message)->type != "hello") return false;
  if (auto answered = answer(client, (*message)->body); !answered) {
    send_away(client, answered.error());
    return false;
  }
  return true;
}

Expected<void> Clients::answer(Client& client, const nlohmann::json& body) {
  auto hello = hello_from_json(body, client.challenge);
  if (!hello) return tl::make_unexpected(hello.error());
  client.name = hello->name;
  if (policy().is_open()) {
    // Anybody, by any name.
  } else if (hello->name.empty()) {
    if (!policy().admits_anonymous()) {
      return fail(ErrorCode::invalid_argument,
                  "the publisher wants to know who you are; see --name and --secret-file");
    }
  } else {
    const auto secret = policy().secret(hello->name);
    // The same for a name that there is not, so that nobody learns which there are.
    if (!secret || !has_proof(body, *secret, client.challenge_sent)) {
      return fail(ErrorCode::invalid_argument, "name or secret are not right");
    }
    client.secret = *secret;
  }
  auto admitted = node_.admit(*hello);
  if (!admitted) return tl::make_unexpected(admitted.error());
  client.admitted = *admitted;
  ++admitted_;
  nlohmann::json welcome = to_json(Welcome{.side = admitted->side});
  if (client.secret) add_proof(welcome, *client.secret, client.challenge_sent, body);
  auto sent = client.channel.send("welcome", welcome);
  if (sent && ended_) sent = client.channel.send("end", nlohmann::json::object());
  return sent;
}

void Clients::send_away(Client& client, const Error& why) {
  ++refused_;
  fmt::print(stderr, "{}: sent away: {}\n", called(client.name), why.message);
  client.channel.send_error(why);
}

void Clients::dismiss(Client& client) {
  if (!client.admitted) return;
  node_.dismiss(*client.admitted);
  client.admitted.reset();
}

bool Clients::still_welcome(const Client& client) const {
  return !client.secret || policy().secret(client.name) == client.secret;
}

void Clients::apply_policy() {
  for (auto client = clients_.begin(); client != clients_.end();) {
    if (still_welcome(*client)) {
      ++client;
      continue;
    }
    send_away(*client, {ErrorCode::invalid_argument, "name or secret are not right any more"});
    dismiss(*client);
    client = clients_.erase(client);
  }
  node_.publisher().apply_policy();
}

void Clients::end() {
  ended_ = true;
  for (Client& client : clients_) {
    if (client.admitted && !client.channel.send("end", nlohmann::json::object())) {
      client.gone = true;
    }
  }
}

std::size_t Clients::with_access() const {
  return static_cast<std::size_t>(std::count_if(
      clients_.begin(), clients_.end(), [](const Client& client) { return client.has_access; }));
}

Clients::Client* Clients::find(publisher::SubscriberId id) {
  const auto found = std::find_if(clients_.begin(), clients_.end(), [&](const Client& client) {
    return client.admitted && client.admitted->id == id;
  });
  return found == clients_.end() ? nullptr : &*found;
}

bool Clients::may_read(std::string_view subscriber, const publisher::StoreInfo& store,
                       std::span<const std::byte>) {
  return policy().may_read(subscriber, store.name);
}

bool Clients::may_see(std::string_view subscriber, const publisher::StoreInfo& store) {
  return policy().may_see(subscriber, store.name);
}

void Clients::on_granted(publisher::SubscriberId id, const publisher::StoreInfo& store) {
  Client* client = find(id);
  if (client == nullptr) return;
  client->has_access = true;
  fmt::print(stderr, "{}: granted {}\n", called(client->name), store.name);
}

void Clients::on_refused(publisher::SubscriberId id, std::string_view store,
                         publisher::Refusal why) {
  const Client* client = find(id);
  if (client == nullptr) return;
  fmt::print(stderr, "{}: refused {:?}: {}\n", called(client->name), store, to_string(why));
}

void Clients::on_gone(publisher::SubscriberId id) {
  if (Client* client = find(id); client != nullptr) client->gone = true;
}

}  // namespace rockhopper::apps::publish
