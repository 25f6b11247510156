// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/node/personality/personality.h"
#include "roce/congestion/congestion_control.h"
#include "roce/recovery/recovery_config.h"
#include "roce/types.h"
#include "roce/work_request.h"
#include "stack/error.h"
#include "stack/fault_config.h"
#include "stack/net/ecn_marking.h"
#include "stack/sim/network.h"

namespace rockhopper::apps::sim {

/// A scenario file as docs/programs/rh-sim.md describes it, checked; groups of nodes and flows are
/// resolved into single ones.
struct NodeSpec {
  std::string name;
  bool is_host = true;
  std::optional<stack::sim::PfcThresholds> pfc{};  ///< switches
  std::optional<Personality> personality{};        ///< hosts
  std::uint64_t poll_interval_ns = 0;              ///< hosts
};

struct LinkSpec {
  stack::sim::NodeIndex first = 0;
  stack::sim::NodeIndex second = 0;
  std::uint64_t rate_bits_per_s = 0;
  std::uint64_t delay_ns = 0;
  std::uint64_t queue_bytes = 0;  ///< of the output ports at switches
  stack::net::EcnMarking ecn{};
  std::string faults{};  ///< as given; empty: none
};

/// What one flow does: messages from one host to another over a connection of its own.
struct FlowSpec {
  std::size_t group = 0;  ///< the entry of the file that it comes from
  std::string name;
  stack::sim::NodeIndex from = 0;
  stack::sim::NodeIndex to = 0;
  roce::QpType transport = roce::QpType::rc;
  roce::WrOpcode operation = roce::WrOpcode::rdma_write;
  std::uint32_t size = 0;
  std::uint64_t count = 0;  ///< messages; 0: until `stop_ns`
  std::uint64_t start_ns = 0;
  std::uint64_t stop_ns = 0;          ///< no message begins later
  std::uint32_t window = 0;           ///< messages outstanding at most
  std::uint32_t receives = 0;         ///< receive requests at the other end
  std::uint64_t rate_bits_per_s = 0;  ///< at which messages are posted; 0: as the window allows
  roce::PathMtu path_mtu = roce::PathMtu::mtu_1024;
  std::uint8_t traffic_class = 0;
  std::uint8_t timeout = 14;
  std::uint8_t retry_cnt = 7;
  roce::CongestionConfig congestion{};
  roce::RecoveryConfig recovery{};
};

struct Scenario {
  std::string name;
  std::uint64_t seed = 1;
  std::uint64_t duration_ns = 0;
  std::uint64_t measure_from_ns = 0;  ///< rates and fairness count from here on
  std::uint64_t sample_ns = 0;        ///< time between two points of a curve
  std::uint64_t poll_interval_ns = 0;
  bool ipv6 = false;
  stack::PriorityMap priorities;  ///< of all hosts and switches
  std::uint32_t max_unacked_packets = 128;
  std::uint64_t min_time_between_cnps_ns = 50'000;
  std::uint32_t mbufs = 0;  ///< of the whole network; 0: reckoned
  std::vector<NodeSpec> nodes;
  std::vector<LinkSpec> links;
  std::vector<std::string> groups;  ///< names of the entries of "flows"
  std::vector<FlowSpec> flows;
};

/// As scenarios have it. Requires one that they can have.
[[nodiscard]] std::string_view operation_name(roce::WrOpcode operation);

/// `seed` is instead of the scenario's. Errors name the place in the document: "flows[2].size:
/// ...".
[[nodiscard]] Expected<Scenario> parse_scenario(std::string_view json_text,
                                                std::optional<std::uint64_t> seed = {});
[[nodiscard]] Expected<Scenario> read_scenario(const std::string& path,
                                               std::optional<std::uint64_t> seed = {});

}  // namespace rockhopper::apps::sim
