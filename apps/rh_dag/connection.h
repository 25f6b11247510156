// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/common/control_channel.h"
#include "apps/common/service_node.h"
#include "apps/rh_dag/connect_options.h"
#include "apps/services/dag/client.h"

namespace rockhopper::apps::dag_node {

/// The way to the servers: the endpoint, the client of the library, what connects it, and the turns
/// of all.
class Connection final : public ServiceNode {
 public:
  /// `options` and `listener` must outlive it. `operations` is how many the client has at a time.
  [[nodiscard]] static Expected<std::unique_ptr<Connection>> create(
      const ConnectOptions& options, const EndpointConfig& config,
      const stack::Arguments& arguments, dag::ClientListener& listener, std::uint16_t operations);
  ~Connection() override;

  /// Connects to all servers. Fails if one does not answer for as long as the options say, or does
  /// not want us.
  [[nodiscard]] Expected<void> connect(dag::Placement placement);
  /// Connects to one of them again, after on_server_lost() or to be another client there.
  [[nodiscard]] Expected<void> reconnect(std::uint16_t server);

  /// What has its turns with the packets'; given the time, true if there was something to do.
  void set_work(std::function<bool(std::uint64_t)> work) { work_ = std::move(work); }

  // After connect().
  [[nodiscard]] dag::Client& client() { return *client_; }
  [[nodiscard]] const dag::Grant& grant(std::uint16_t server) const { return ways_[server].grant; }
  [[nodiscard]] const roce::AddressVector& path(std::uint16_t server) const {
    return ways_[server].path;
  }
  using ServiceNode::dc;
  using ServiceNode::engine;
  [[nodiscard]] roce::PathMtu path_mtu() const { return static_cast<roce::PathMtu>(path_mtu_); }

  [[nodiscard]] nlohmann::json counters() const;

 private:
  struct Way {
    std::optional<ControlChannel> channel;
    roce::AddressVector path;
    dag::Grant grant;
  };

  Connection(const ConnectOptions& options, dag::ClientListener& listener, std::uint16_t operations,
             std::unique_ptr<Endpoint> endpoint);
  [[nodiscard]] bool progress(std::uint64_t now_ns) override;
  [[nodiscard]] Expected<void> connect(std::uint16_t server, dag::Placement& placement);
  [[nodiscard]] Expected<Offer> call(std::uint16_t server);
  [[nodiscard]] Expected<void> choose_path_mtu(const Offer& offer);
  [[nodiscard]] Expected<void> make_client(dag::Placement& placement);
  [[nodiscard]] Expected<Welcome> greet(std::uint16_t server);
  [[nodiscard]] Expected<void> join(std::uint16_t server, const Welcome& welcome);

  const ConnectOptions& options_;
  dag::ClientListener& listener_;
  std::uint16_t operations_;
  std::unique_ptr<dag::Client> client_;
  std::function<bool(std::uint64_t)> work_;
  std::vector<Way> ways_;  ///< by server
  std::uint16_t path_mtu_ = 0;
};

}  // namespace rockhopper::apps::dag_node
