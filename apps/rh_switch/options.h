// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/idle.h"
#include "apps/common/option_set.h"
#include "stack/error.h"
#include "stack/fault_config.h"
#include "stack/net/learning_switch.h"

namespace rockhopper::apps::ethernet_switch {

using stack::net::kPortsMax;
using stack::net::PortNumber;

/// The options of rh-switch, as given.
struct SwitchOptions {
  std::vector<std::string> ports;
  PortNumber memif_ports = 0;
  std::string socket_directory;
  std::vector<std::string> faults;
  std::optional<std::uint64_t> seed;
  std::optional<std::uint16_t> link_mtu;
  double mac_ageing_s = 300;
  std::size_t mac_table_size = 4096;
  std::size_t queue_packets = 1024;
  std::vector<std::string> queue_bytes;
  std::vector<std::string> rates;
  std::vector<std::string> ecn;
  std::vector<std::string> trust;
  std::vector<std::string> dscp_priorities;
  std::string pcap;
  std::string idle = "yield";
  double stats_s = 0;
  bool json = false;
};

void add_options(OptionSet app, SwitchOptions& options);

struct PortSettings {
  std::string device{};        ///< devargs, name or number; empty for a memif server
  std::string memif_socket{};  ///< of a memif server
  /// rx: what the port's station sends; tx: what it gets.
  std::optional<stack::FaultConfig> faults{};
  stack::net::OutputPortConfig output{};
  stack::PriorityMap priorities{};  ///< of what comes in
  std::string pcap{};               ///< file; empty: none
};

/// A switch's settings, checked.
struct SwitchSettings {
  std::vector<PortSettings> ports;
  std::uint16_t mtu = 0;
  std::uint64_t mac_ageing_ns = 0;
  std::size_t mac_table_size = 0;
  std::uint64_t seed = 0;
  IdlePolicy idle = IdlePolicy::yield;
};

/// Checks the options and fills in defaults.
[[nodiscard]] Expected<SwitchSettings> make_settings(const SwitchOptions& options);

/// "run.pcapng" becomes "run.2.pcapng" for port 2.
[[nodiscard]] std::string capture_file(const std::string& path, PortNumber port);

/// Mbufs of the pool that all ports share: what their rings, output queues and faults can hold.
[[nodiscard]] std::uint32_t pool_size(const SwitchSettings& settings);
/// Bytes of a frame that one mbuf holds.
[[nodiscard]] std::uint16_t data_room(const SwitchSettings& settings);
/// Megabytes of memory for the embedded EAL.
[[nodiscard]] unsigned embedded_memory_mb(const SwitchSettings& settings);

}  // namespace rockhopper::apps::ethernet_switch
