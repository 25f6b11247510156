// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/services/publisher/publisher.h"
#include "apps/services/publisher/store.h"
#include "apps/services/publisher/subscriber.h"
#include "dc/endpoint.h"
#include "roce/recovery/recovery_config.h"
#include "tests/sim/rng.h"
#include "tests/sim/sim_network.h"
#include "tests/unit/publisher/memory.h"

namespace rockhopper::sim {

/// Whoever is in the list.
class ListedPolicy final : public publisher::Policy {
 public:
  [[nodiscard]] bool may_read(std::string_view subscriber, const publisher::StoreInfo& store,
                              std::span<const std::byte>) override {
    return allow_all || allowed.count({std::string(subscriber), store.name}) != 0;
  }
  [[nodiscard]] bool may_see(std::string_view, const publisher::StoreInfo& store) override {
    return hidden.count(store.name) == 0;
  }
  bool allow_all = false;
  std::set<std::pair<std::string, std::string>> allowed;
  std::set<std::string> hidden;
};

struct WorldConfig {
  NetworkConfig network;
  bool dynamic_connections = false;
  roce::PathMtu path_mtu = roce::PathMtu::mtu_1024;
  roce::RecoveryConfig recovery{};  ///< of queue pairs
  std::uint8_t timeout = 9;         ///< local ACK timeout code of everybody, 2 ms
  publisher::PublisherConfig publisher{};
  bool multicast = false;  ///< to a group of the network's family, with path_mtu
};

/// A store between canaries, and its writer.
struct TestStore {
  TestStore(std::string store_name, const publisher::StoreConfig& config, std::uint64_t ring_bytes)
      : name(std::move(store_name)),
        memory(publisher::store_bytes(ring_bytes)),
        store(must(publisher::Store::create(memory.bytes(), config))) {}
  std::string name;
  test::GuardedMemory memory;
  std::unique_ptr<publisher::Store> store;
};

/// A subscriber with what it has been told.
struct Client final : publisher::SubscriberListener {
  void on_directory(std::span<const publisher::StoreInfo> stores) override {
    directory.assign(stores.begin(), stores.end());
    ++directories;
  }
  void on_granted(publisher::SubscriptionId, const publisher::StoreInfo& store) override {
    granted.push_back(store.name);
  }
  void on_refused(publisher::SubscriptionId, const Error& error) override {
    refused.push_back(error.message);
  }
  void on_revoked(publisher::SubscriptionId) override { ++revoked; }
  void on_disconnected() override { ++disconnected; }
  [[nodiscard]] bool runs() const { return subscriber != nullptr && !stopped; }

  std::string name;
  std::unique_ptr<publisher::Subscriber> subscriber;  ///< null: it has vanished
  bool stopped = false;                               ///< its engine goes on
  publisher::SubscriberId id{};
  std::array<roce::QueuePair*, 2> qps{};  ///< the publisher's and the subscriber's
  std::vector<publisher::StoreInfo> directory;
  unsigned directories = 0;
  std::vector<std::string> granted;
  std::vector<std::string> refused;
  unsigned revoked = 0;
  unsigned disconnected = 0;
};

/// A publisher at node 0 of a simulated network, and subscribers at node 1.
class World : private publisher::PublisherListener {
 public:
  explicit World(const WorldConfig& config);
  ~World() override;

  TestStore& add_store(const std::string& name, std::uint64_t ring_bytes, std::uint64_t epoch,
                       std::uint32_t message_max = 0);
  /// Not connected yet.
  Client& add_client(const std::string& name, publisher::SubscriberConfig config = {});
  void connect(Client& client);
  /// Takes away the connection at both ends.
  void disconnect(Client& client);
  /// As when the publisher's process is killed and started again: all connections end and are made
  /// anew. Each store goes on with what is in its memory, or begins `epoch`. Queue pairs only.
  void restart(bool recover, std::uint64_t epoch);
  /// A connected pair of queue pairs.
  [[nodiscard]] std::array<roce::QueuePair*, 2> connect(const roce::QpInit& publisher_end,
                                                        const roce::QpInit& subscriber_end);
  /// Where the other node finds a target of this one.
  [[nodiscard]] dc::TargetAddress address_of(unsigned node, const dc::Dct& target);

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
  /// To the next deadline of anybody.
  void pass_time(std::uint64_t limit_ns);
  void run_for(std::uint64_t duration_ns) {
    (void)run_until([] { return false; }, duration_ns);
  }

  WorldConfig config;
  SimNetwork network;
  ListedPolicy policy;
  std::array<std::unique_ptr<dc::Endpoint>, 2> endpoints;
  std::unique_ptr<publisher::Publisher> publisher;
  std::vector<std::unique_ptr<TestStore>> stores;
  std::vector<std::unique_ptr<Client>> clients;
  std::set<publisher::SubscriberId> gone;
  bool publisher_stopped = false;  ///< its engine goes on, as a network adapter does

 private:
  void on_gone(publisher::SubscriberId id) override { gone.insert(id); }

  Rng rng_;  // of what connections draw
};

}  // namespace rockhopper::sim
