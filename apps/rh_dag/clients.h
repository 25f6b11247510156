// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>

#include "apps/common/control_server.h"
#include "apps/rh_dag/store_node.h"

namespace rockhopper::apps::dag_node {

struct GreetedClient : ControlClient {
  Offer offer{};
  std::optional<dag::ClientId> id{};
};

/// Who has come to a server by TCP. A client whose connection has ended is gone, and fenced at
/// once.
class Clients final : public ControlServer<GreetedClient> {
 public:
  /// The node must outlive it, and tells it alone who was fenced.
  explicit Clients(StoreNode& node);
  ~Clients() override;

  [[nodiscard]] std::uint64_t fenced() const { return fenced_; }

 private:
  [[nodiscard]] Expected<GreetedClient> greet(TcpConnection connection) override;
  [[nodiscard]] Expected<void> admit(GreetedClient& client, const nlohmann::json& hello) override;
  void print_refusal(const GreetedClient& client, const Error& why) override;
  void dismiss(GreetedClient& client) override;
  void on_fenced(dag::ClientId id);

  StoreNode& node_;
  std::uint64_t fenced_ = 0;
};

}  // namespace rockhopper::apps::dag_node
