// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/publisher/world.h"

#include <algorithm>

namespace rockhopper::sim {

namespace {

stack::IpAddress group_of(bool ipv6) {
  return *stack::IpAddress::parse(ipv6 ? "ff15::4242" : "239.42.42.42");
}

}  // namespace

World::World(const WorldConfig& world_config)
    : config(world_config), network(world_config.network), rng_(world_config.network.seed) {
  if (config.dynamic_connections) {
    for (unsigned i = 0; i < 2; ++i) {
      dc::EndpointConfig endpoint;
      endpoint.sessions.contexts = 64;
      endpoints[i] = must(dc::Endpoint::create(network.node(i).engine(), endpoint));
    }
  }
  config.publisher.timeout = config.timeout;
  if (config.multicast) {
    config.publisher.multicast = publisher::MulticastConfig{.group = group_of(config.network.ipv6),
                                                            .source = network.node(0).address(),
                                                            .path_mtu = config.path_mtu};
  }
  publisher = must(publisher::Publisher::create(network.node(0).engine(), endpoints[0].get(),
                                                policy, *this, config.publisher));
}

World::~World() {
  for (const auto& client : clients) {
    if (publisher != nullptr) publisher->remove_subscriber(client->id);
    for (unsigned i = 0; i < 2; ++i) {
      if (client->qps[i] != nullptr) network.node(i).engine().destroy_qp(client->qps[i]);
    }
    client->subscriber.reset();
  }
  publisher.reset();
}

TestStore& World::add_store(const std::string& name, std::uint64_t ring_bytes, std::uint64_t epoch,
                            std::uint32_t message_max) {
  const publisher::StoreConfig store{.id = static_cast<std::uint16_t>(stores.size() + 1),
                                     .epoch = epoch,
                                     .message_max = message_max};
  stores.push_back(std::make_unique<TestStore>(name, store, ring_bytes));
  must(publisher->add_store(name, *stores.back()->store));
  return *stores.back();
}

Client& World::add_client(const std::string& name, publisher::SubscriberConfig subscriber) {
  auto client = std::make_unique<Client>();
  client->name = name;
  subscriber.timeout = config.timeout;
  client->subscriber = must(publisher::Subscriber::create(network.node(1).engine(),
                                                          endpoints[1].get(), *client, subscriber));
  clients.push_back(std::move(client));
  return *clients.back();
}

std::array<roce::QueuePair*, 2> World::connect(const roce::QpInit& publisher_end,
                                               const roce::QpInit& subscriber_end) {
  const std::array<roce::QueuePair*, 2> qps{
      must(network.node(0).engine().create_qp(publisher_end)),
      must(network.node(1).engine().create_qp(subscriber_end))};
  for (roce::QueuePair* qp : qps) {
    must(qp->set_loss_recovery(config.recovery));
  }
  roce::QpAttributes attributes;
  attributes.path_mtu = config.path_mtu;
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 16;
  attributes.min_rnr_timer = 1;
  attributes.timeout = config.timeout;
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  // Others each time, as a queue pair number comes again while packets for it are on their way.
  const auto psn = [this] { return wire::Psn{rng_.between32(0, 0xffffff)}; };
  network.connect(qps, attributes, {psn(), psn()});
  return qps;
}

dc::TargetAddress World::address_of(unsigned node, const dc::Dct& target) {
  return {.av = {.source = network.node(1 - node).address(),
                 .destination = network.node(node).address()},
          .number = target.number(),
          .access_key = target.access_key()};
}

void World::connect(Client& client) {
  if (!config.dynamic_connections) {
    client.qps = connect(publisher->qp_init(), client.subscriber->qp_init());
    client.id = must(publisher->add_subscriber(client.name, *client.qps[0]));
    must(client.subscriber->connect(*client.qps[1]));
    return;
  }
  client.id =
      must(publisher->add_subscriber(client.name, address_of(1, *client.subscriber->target())));
  must(client.subscriber->connect(address_of(0, *publisher->target(client.id))));
}

void World::disconnect(Client& client) {
  publisher->remove_subscriber(client.id);
  if (client.qps[0] == nullptr) return;
  network.node(0).engine().destroy_qp(client.qps[0]);
  must(client.qps[1]->modify({.qp_state = roce::QpState::err}, roce::kQpState));
  while (client.subscriber->connected()) {
    client.subscriber->progress(network.now_ns());
  }
  network.node(1).engine().destroy_qp(client.qps[1]);
  client.qps = {};
}

void World::restart(bool recover, std::uint64_t epoch) {
  for (const auto& client : clients) {
    disconnect(*client);
  }
  publisher = nullptr;
  publisher = must(publisher::Publisher::create(network.node(0).engine(), endpoints[0].get(),
                                                policy, *this, config.publisher));
  for (const auto& store : stores) {
    const publisher::StoreConfig fresh{
        .id = store->store->id(), .epoch = epoch, .message_max = store->store->message_max()};
    store->store = recover ? must(publisher::Store::recover(store->memory.bytes(), fresh)).store
                           : must(publisher::Store::create(store->memory.bytes(), fresh));
    must(publisher->add_store(store->name, *store->store));
  }
  for (const auto& client : clients) {
    connect(*client);
  }
}

bool World::turn() {
  bool moved = network.poll();
  if (!publisher_stopped) moved = publisher->progress(network.now_ns()) || moved;
  for (const auto& client : clients) {
    if (client->runs()) moved = client->subscriber->progress(network.now_ns()) || moved;
  }
  return moved;
}

void World::pass_time(std::uint64_t limit_ns) {
  std::uint64_t next_ns = limit_ns;
  if (!publisher_stopped) next_ns = std::min(next_ns, publisher->next_deadline_ns());
  for (const auto& client : clients) {
    if (client->runs()) next_ns = std::min(next_ns, client->subscriber->next_deadline_ns());
  }
  next_ns = std::max(next_ns, network.now_ns() + 100);
  if (!network.advance(next_ns)) network.advance_to(next_ns);
}

}  // namespace rockhopper::sim
