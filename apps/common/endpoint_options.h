// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/option_set.h"
#include "apps/node/node_config.h"
#include "stack/error.h"

namespace rockhopper::apps {

/// Which end of a default link a program is: two terminals work without any options.
enum class Role { server, client };

/// The options that every program with a RoCE endpoint has, as given.
struct EndpointOptions {
  std::string device;
  std::vector<std::string> ip;
  std::string gateway;
  std::optional<std::uint16_t> vlan;
  std::string trust = "pcp";
  std::string dscp_priorities;
  bool priority_tags = false;
  unsigned traffic_class = 0;
  std::string pkeys;
  std::uint16_t pkey_index = 0;
  std::optional<std::uint16_t> link_mtu;
  std::optional<std::string> memif_role;
  std::string memif_socket;
  std::uint32_t memif_id = 0;
  std::uint16_t memif_links = 1;
  std::string pcap;
  std::string faults;
  std::string trace;
  std::optional<std::uint64_t> seed;
  std::string idle = "yield";
  double stats_s = 0;
  double connect_timeout_s = 10;
  std::string reserved_opcodes = "nak";
  std::string credits = "obey";
  std::string tell_credits = "count";
  unsigned cnp_dscp = roce::CnpConfig{}.dscp;
  unsigned cnp_priority = roce::CnpConfig{}.priority;
  double cnp_interval_us = 50;
  std::string cnp_scope = "qp";
  std::string line_rate;
  std::string personality;
};

/// Adds them. `device_names` are the names of the option that chooses the DPDK port.
void add_endpoint_options(const OptionSet& app, EndpointOptions& options,
                          const std::string& device_names = "-d,--device");

// What several programs have besides, with a target of each one's own.

Option add_path_mtu_option(const OptionSet& app, std::uint16_t& target, std::string_view help);
Option add_path_mtu_option(const OptionSet& app, std::optional<std::uint16_t>& target,
                           std::string_view help);
Option add_ack_timeout_option(const OptionSet& app, std::string_view names, unsigned& target);
/// For --timeout and the like, 0.1 s to a day.
Option add_seconds_option(const OptionSet& app, std::string_view name, double& target,
                          std::string_view help);

/// Reads "0xffff,0x8001": a P_Key table from index 0 on. 0 is an empty entry.
[[nodiscard]] Expected<std::vector<std::uint16_t>> parse_pkeys(std::string_view text);

/// An endpoint's settings, checked: those of its node, and what the program says of it.
struct EndpointConfig : NodeConfig {
  bool trace_events = false;
  std::uint64_t seed = 1;  ///< of test data and faults
  double stats_s = 0;      ///< 0: none
};

/// What headers need of the link's MTU beyond the path MTU: IPv6, UDP, BTH, RETH, immediate data
/// and ICRC. The rule that Linux has too.
inline constexpr std::uint16_t kPathMtuOverhead = 80;

/// What the program knows of an endpoint beforehand.
struct EndpointUse {
  Role role = Role::server;
  /// The user has configured the EAL: its first port serves, not the default memif link.
  bool use_eal_ports = false;
  std::uint16_t path_mtu = 0;  ///< asked for by the user; a default link MTU leaves room for it
};

/// Checks the options and fills in defaults.
[[nodiscard]] Expected<EndpointConfig> make_endpoint_config(const EndpointOptions& options,
                                                            const EndpointUse& use);

/// Whether packets of that path MTU, as the user asks for it, pass the link.
[[nodiscard]] Expected<void> check_path_mtu(std::uint16_t path_mtu, const EndpointConfig& config);

}  // namespace rockhopper::apps
