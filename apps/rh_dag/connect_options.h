// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/common/endpoint_options.h"
#include "apps/common/option_set.h"
#include "apps/rh_dag/greeting.h"
#include "apps/services/dag/placement.h"

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
  std::uint32_t buffer_bytes = 0;
  std::uint64_t request_timeout_ns = 0;
  std::uint16_t path_mtu = 0;  ///< 0: the servers'
  unsigned ack_timeout = 14;
  bool json = false;
  EndpointOptions endpoint;

  /// Of keys, and of outputs.
  [[nodiscard]] Expected<dag::Placement> make_placement() const;
  /// All keys are at home, as those of nodes are.
  [[nodiscard]] Expected<dag::Placement> make_home_placement() const;
};

/// --record-max of those that have a buffer for each of the many records that they read at a time.
inline constexpr const char* kSmallRecordMax = "256KiB";

/// The options as OptionParser fills them in, before finish_options() makes sense of them.
struct RawConnectOptions {
  ConnectOptions options;
  std::vector<std::string> servers;
  std::string placement = "affinity";
  std::vector<std::string> rules;
  std::string record_max = "1MiB";  ///< may be another one before add_connect_options()
  std::string timeout = "500ms";
};

void add_connect_options(OptionSet app, RawConnectOptions& raw);
[[nodiscard]] Expected<ConnectOptions> finish_options(const RawConnectOptions& raw);

}  // namespace rockhopper::apps::dag_node
