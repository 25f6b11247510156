// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/clients.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "apps/rh_publish/proof.h"

namespace rockhopper::apps::publish {
namespace {

/// For people: names from the wire have been checked, but need not be there.
std::string_view called(const std::string& name) {
  return name.empty() ? std::string_view("(no name)") : std::string_view(name);
}

}  // namespace

Clients::~Clients() {
  for (GreetedClient& client : clients()) {
    dismiss(client);
  }
}

const AccessPolicy& Clients::policy() const {
  return policy_file_ == nullptr ? open_ : policy_file_->policy();
}

Expected<GreetedClient> Clients::greet(TcpConnection connection) {
  ROCKHOPPER_TRY(auto nonce, make_nonce());
  GreetedClient client{{.channel = ControlChannel(std::move(connection), node_)},
                       node_.challenge(std::move(nonce))};
  client.challenge_sent = fields_to_json(client.challenge);
  client.gone = !client.channel.send("challenge", client.challenge_sent);
  return client;
}

Expected<void> Clients::admit(GreetedClient& client, const nlohmann::json& hello_json) {
  ROCKHOPPER_TRY(auto hello, hello_from_json(hello_json, client.challenge));
  client.name = hello.name;
  if (policy().is_open()) {
    // Anybody, by any name.
  } else if (hello.name.empty()) {
    if (!policy().admits_anonymous()) {
      return fail(ErrorCode::invalid_argument,
                  "the publisher wants to know who you are; see --name and --secret-file");
    }
  } else {
    const auto secret = policy().secret(hello.name);
    // The same for a name that there is not, so that nobody learns which there are.
    if (!secret || !has_proof(hello_json, *secret, client.challenge_sent)) {
      return fail(ErrorCode::invalid_argument, "name or secret are not right");
    }
    client.secret = *secret;
  }
  ROCKHOPPER_TRY(auto access, node_.admit(hello));
  client.access = access;
  client.admitted = true;
  nlohmann::json welcome = fields_to_json(Welcome{.side = access.side});
  if (client.secret) add_proof(welcome, *client.secret, client.challenge_sent, hello_json);
  auto sent = client.channel.send("welcome", welcome);
  if (sent && ended_) sent = client.channel.send("end", nlohmann::json::object());
  return sent;
}

void Clients::print_refusal(const GreetedClient& client, const Error& why) {
  fmt::print(stderr, "{}: sent away: {}\n", called(client.name), why.message);
}

void Clients::dismiss(GreetedClient& client) {
  if (!client.access) return;
  // It is not told why: a READ that was on its way when a grant ended is no offence, and it may
  // come again.
  if (client.gone) fmt::print(stderr, "{}: its connection has ended\n", called(client.name));
  node_.dismiss(*client.access);
  client.access.reset();
}

bool Clients::still_welcome(const GreetedClient& client) const {
  return !client.secret || policy().secret(client.name) == client.secret;
}

void Clients::apply_policy() {
  dismiss_if([this](GreetedClient& client) {
    if (still_welcome(client)) return false;
    send_away(client, {ErrorCode::invalid_argument, "name or secret are not right any more"});
    return true;
  });
  node_.publisher().apply_policy();
}

void Clients::end() {
  ended_ = true;
  for (GreetedClient& client : clients()) {
    if (client.admitted && !client.channel.send("end", nlohmann::json::object())) {
      client.gone = true;
    }
  }
}

std::size_t Clients::with_access() const {
  return static_cast<std::size_t>(
      std::count_if(clients().begin(), clients().end(),
                    [](const GreetedClient& client) { return client.has_store; }));
}

GreetedClient* Clients::find(publisher::SubscriberId id) {
  const auto found = std::find_if(
      clients().begin(), clients().end(),
      [&](const GreetedClient& client) { return client.access && client.access->id == id; });
  return found == clients().end() ? nullptr : &*found;
}

bool Clients::may_read(std::string_view subscriber, const publisher::StoreInfo& store,
                       std::span<const std::byte>) {
  return policy().may_read(subscriber, store.name);
}

bool Clients::may_see(std::string_view subscriber, const publisher::StoreInfo& store) {
  return policy().may_see(subscriber, store.name);
}

void Clients::on_granted(publisher::SubscriberId id, const publisher::StoreInfo& store) {
  GreetedClient* client = find(id);
  if (client == nullptr) return;
  client->has_store = true;
  fmt::print(stderr, "{}: granted {}\n", called(client->name), store.name);
}

void Clients::on_refused(publisher::SubscriberId id, std::string_view store,
                         publisher::Refusal why) {
  const GreetedClient* client = find(id);
  if (client == nullptr) return;
  fmt::print(stderr, "{}: refused {:?}: {}\n", called(client->name), store, to_string(why));
}

void Clients::on_gone(publisher::SubscriberId id) {
  if (GreetedClient* client = find(id); client != nullptr) client->gone = true;
}

}  // namespace rockhopper::apps::publish
