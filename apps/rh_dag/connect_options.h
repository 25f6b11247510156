// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/common/endpoint_options.h"
#include "apps/common/option_set.h"
#include "apps/rh_dag/greeting.h"
#include "apps/services/dag/placement.h"

namespace rockhopper::dag {

// As options say it.
constexpr auto names_of(PlacementPolicy) {
  return std::array{apps::Names{"hash"}, apps::Names{"affinity"}, apps::Names{"table"}};
}

}  // namespace rockhopper::dag

namespace rockhopper::apps::dag_node {

struct ServerAddress {
  std::string host;
  std::uint16_t port = kDefaultPort;
  friend bool operator==(const ServerAddress&, const ServerAddress&) = default;
};

/// Reads "host", "host:port", "10.0.0.1:port", "[fd00::1]:port".
[[nodiscard]] Expected<ServerAddress> parse_server_address(const std::string& text);

/// What every program has that is a client of servers.
struct ConnectOptions {
  std::vector<ServerAddress> servers;  ///< server 0, 1...
  std::uint16_t home = 0;              ///< which of them has the runs
  dag::PlacementPolicy placement = dag::PlacementPolicy::affinity;
  std::vector<dag::PlacementRule> rules;
  std::uint32_t entries = 65536;  ///< of its own map
  std::uint64_t record_max = 0;   ///< data of a record that can be read
  std::uint64_t request_timeout_ns = 0;
  std::uint16_t path_mtu = 0;  ///< 0: the servers'
  unsigned ack_timeout = 14;
  bool json = false;
  EndpointOptions endpoint;

  /// For both slots of a record that is updated, and the header.
  [[nodiscard]] std::uint32_t buffer_bytes() const;
  /// Of keys, and of outputs.
  [[nodiscard]] Expected<dag::Placement> make_placement() const;
  /// All keys are at home, as those of nodes are.
  [[nodiscard]] Expected<dag::Placement> make_home_placement() const;
};

inline constexpr const char* kRecordMax = "1MiB";
/// --record-max of those that have a buffer for each of the many records that they read at a time.
inline constexpr const char* kSmallRecordMax = "256KiB";

void add_connect_options(const OptionSet& app, ConnectOptions& options,
                         const char* record_max = kRecordMax);

}  // namespace rockhopper::apps::dag_node
