// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "apps/common/control_server.h"
#include "apps/rh_publish/node.h"
#include "apps/rh_publish/policy_file.h"

namespace rockhopper::apps::publish {

struct GreetedClient : ControlClient {
  Challenge challenge{};
  nlohmann::json challenge_sent{};
  std::string name{};
  std::optional<std::string> secret{};  ///< that it has proved to know
  std::optional<Node::Admitted> access{};
  bool has_store = false;  ///< or had one
};

/// Who has come by TCP, admitted by the policy.
class Clients final : public ControlServer<GreetedClient>,
                      public publisher::Policy,
                      public publisher::PublisherListener {
 public:
  /// `policy_file` null: everybody may read everything. All must outlive it.
  Clients(Node& node, PolicyFile* policy_file) : node_(node), policy_file_(policy_file) {}
  ~Clients() override;

  /// The policy has changed: grants that are not right any more end, and so do connections of
  /// subscribers that are gone, or have another secret.
  void apply_policy();
  /// Tells all, and who comes later, that nothing more is published.
  void end();

  /// Nobody is connected, nor about to be.
  [[nodiscard]] bool are_gone() const { return clients().empty(); }
  /// Connections that have access to a store, or had it.
  [[nodiscard]] std::size_t with_access() const;

  // The publisher asks and tells.
  [[nodiscard]] bool may_read(std::string_view subscriber, const publisher::StoreInfo& store,
                              std::span<const std::byte> credentials) override;
  [[nodiscard]] bool may_see(std::string_view subscriber,
                             const publisher::StoreInfo& store) override;
  void on_granted(publisher::SubscriberId id, const publisher::StoreInfo& store) override;
  void on_refused(publisher::SubscriberId id, std::string_view store,
                  publisher::Refusal why) override;
  void on_gone(publisher::SubscriberId id) override;

 private:
  [[nodiscard]] const AccessPolicy& policy() const;
  [[nodiscard]] Expected<GreetedClient> greet(TcpConnection connection) override;
  [[nodiscard]] Expected<void> admit(GreetedClient& client,
                                     const nlohmann::json& hello_json) override;
  void print_refusal(const GreetedClient& client, const Error& why) override;
  void dismiss(GreetedClient& client) override;
  [[nodiscard]] bool still_welcome(const GreetedClient& client) const;
  [[nodiscard]] GreetedClient* find(publisher::SubscriberId id);

  Node& node_;
  PolicyFile* policy_file_;
  const AccessPolicy open_ = AccessPolicy::open();
  bool ended_ = false;
};

}  // namespace rockhopper::apps::publish
