// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "apps/common/control_channel.h"
#include "apps/common/tcp.h"
#include "apps/publish/node.h"
#include "apps/publish/policy_file.h"

namespace rockhopper::apps::publish {

/// Who has come by TCP: greets, admits by the policy, and sends away.
class Clients final : public publisher::Policy, public publisher::PublisherListener {
 public:
  /// How often it is looked at what has come by TCP.
  static constexpr std::uint64_t kLookNs = 1'000'000;
  /// For the whole greeting.
  static constexpr std::uint64_t kGreetingNs = 10'000'000'000;
  /// That are being greeted at a time.
  static constexpr std::size_t kGreetedMax = 64;

  /// `policy_file` null: everybody may read everything. All must outlive it.
  Clients(Node& node, PolicyFile* policy_file) : node_(node), policy_file_(policy_file) {}
  ~Clients() override;

  [[nodiscard]] Expected<void> listen(std::uint16_t port);
  /// One turn.
  [[nodiscard]] Expected<void> turn(std::uint64_t now_ns);
  /// The policy has changed: grants that are not right any more end, and so do connections of
  /// subscribers that are gone, or have another secret.
  void apply_policy();
  /// Tells all, and who comes later, that nothing more is published.
  void end();

  /// Nobody is connected, nor about to be.
  [[nodiscard]] bool are_gone() const { return clients_.empty(); }
  /// Connections that have access to a store, or had it.
  [[nodiscard]] std::size_t with_access() const;
  [[nodiscard]] std::uint64_t admitted() const { return admitted_; }
  [[nodiscard]] std::uint64_t refused() const { return refused_; }

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
  struct Client {
    ControlChannel channel;
    std::uint64_t deadline_ns = 0;  ///< of the greeting
    Challenge challenge{};
    nlohmann::json challenge_sent{};
    std::string name{};
    std::optional<std::string> secret{};  ///< that it has proved to know
    std::optional<Node::Admitted> admitted{};
    bool has_access = false;
    bool gone = false;  ///< its connection has failed
  };

  [[nodiscard]] const AccessPolicy& policy() const;
  [[nodiscard]] Expected<void> accept(std::uint64_t now_ns);
  /// False: the client has left.
  [[nodiscard]] bool serve(Client& client, std::uint64_t now_ns);
  [[nodiscard]] Expected<void> answer(Client& client, const nlohmann::json& body);
  [[nodiscard]] bool still_welcome(const Client& client) const;
  void send_away(Client& client, const Error& why);
  void dismiss(Client& client);
  [[nodiscard]] Client* find(publisher::SubscriberId id);

  Node& node_;
  PolicyFile* policy_file_;
  const AccessPolicy open_ = AccessPolicy::open();
  std::optional<TcpListener> listener_;
  std::list<Client> clients_;
  std::uint64_t next_look_ns_ = 0;
  bool ended_ = false;
  std::uint64_t admitted_ = 0;
  std::uint64_t refused_ = 0;
};

}  // namespace rockhopper::apps::publish
