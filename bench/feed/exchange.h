// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "roce/engine.h"
#include "roce/queue_pair.h"
#include "stack/ip_address.h"

namespace rockhopper::bench {

/// The store that both sides mean.
inline constexpr const char* kFeedStore = "feed";

/// One end of all connections between two processes of a feed, as it goes over TCP.
struct FeedEnd {
  struct Connection {
    std::uint32_t qpn = 0;
    std::uint32_t psn = 0;
  };
  std::string gid;
  std::uint16_t path_mtu = 0;
  std::vector<Connection> connections;
};

[[nodiscard]] inline nlohmann::json to_json(const FeedEnd& end) {
  nlohmann::json connections = nlohmann::json::array();
  for (const auto& connection : end.connections) {
    connections.push_back({connection.qpn, connection.psn});
  }
  return {{"gid", end.gid}, {"path_mtu", end.path_mtu}, {"connections", std::move(connections)}};
}

/// Throws if it is none.
[[nodiscard]] inline FeedEnd feed_end_from_json(const nlohmann::json& json) {
  FeedEnd end{.gid = json.at("gid").get<std::string>(),
              .path_mtu = json.at("path_mtu").get<std::uint16_t>(),
              .connections = {}};
  for (const auto& connection : json.at("connections")) {
    end.connections.push_back(
        {connection.at(0).get<std::uint32_t>(), connection.at(1).get<std::uint32_t>()});
  }
  return end;
}

/// A queue pair with the number that its first packet will have.
struct FeedQueuePair {
  roce::QueuePair* qp = nullptr;
  wire::Psn psn{};

  [[nodiscard]] FeedEnd::Connection described() const { return {qp->number().value, psn.value}; }
};

[[nodiscard]] FeedQueuePair make_queue_pair(roce::Engine& engine, const roce::QpInit& init);
/// To RTS, with the peer's end.
void bring_up(const FeedQueuePair& own, const stack::IpAddress& address, const FeedEnd& peer,
              const FeedEnd::Connection& connection, std::uint16_t path_mtu);

}  // namespace rockhopper::bench
