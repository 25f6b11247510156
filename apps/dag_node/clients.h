// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <list>
#include <optional>

#include "apps/common/control_channel.h"
#include "apps/common/tcp.h"
#include "apps/dag_node/store_node.h"

namespace rockhopper::apps::dag_node {

/// Who has come to a server by TCP: greets, admits, and takes leave. A client whose connection has
/// ended is gone, and fenced at once.
class Clients {
 public:
  /// How often it is looked at what has come by TCP.
  static constexpr std::uint64_t kLookNs = 1'000'000;
  /// For the whole greeting.
  static constexpr std::uint64_t kGreetingNs = 10'000'000'000;
  /// That are being greeted at a time.
  static constexpr std::size_t kGreetedMax = 64;

  /// The node must outlive it, and tells it alone who was fenced.
  explicit Clients(StoreNode& node);
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;
  ~Clients();

  [[nodiscard]] Expected<void> listen(std::uint16_t port);
  /// One turn.
  [[nodiscard]] Expected<void> turn(std::uint64_t now_ns);

  [[nodiscard]] std::uint64_t admitted() const { return admitted_; }
  [[nodiscard]] std::uint64_t refused() const { return refused_; }
  [[nodiscard]] std::uint64_t fenced() const { return fenced_; }

 private:
  struct Client {
    ControlChannel channel;
    std::uint64_t deadline_ns = 0;  ///< of the greeting
    Offer offer{};
    std::optional<dag::ClientId> id{};
    bool gone = false;
  };

  [[nodiscard]] Expected<void> accept(std::uint64_t now_ns);
  /// False: the client has left.
  [[nodiscard]] bool serve(Client& client, std::uint64_t now_ns);
  [[nodiscard]] Expected<void> answer(Client& client, const nlohmann::json& body);
  void dismiss(Client& client);
  void on_fenced(dag::ClientId id);

  StoreNode& node_;
  std::optional<TcpListener> listener_;
  std::list<Client> clients_;
  std::uint64_t next_look_ns_ = 0;
  std::uint64_t admitted_ = 0;
  std::uint64_t refused_ = 0;
  std::uint64_t fenced_ = 0;
};

}  // namespace rockhopper::apps::dag_node
