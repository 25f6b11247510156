// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/option_set.h"
#include "stack/error.h"
#include "stack/fault_config.h"
#include "stack/interface_address.h"
#include "stack/net/learning_switch.h"

namespace rockhopper::apps::ethernet_switch {

using stack::net::kPortsMax;
using stack::net::PortNumber;

/// The processes of a segment as a port.
struct SegmentSettings {
  std::vector<stack::InterfaceAddress> addresses{};  ///< that they all have; not empty
  std::string directory{};  ///< empty: the one of this user and network namespace
};

struct PortSettings {
  std::string device{};        ///< devargs, name or number; empty for a memif server and a segment
  std::string memif_socket{};  ///< of a memif server
  std::optional<SegmentSettings> segment{};
  /// rx: what the port's station sends; tx: what it gets.
  std::optional<stack::FaultConfig> faults{};
  stack::net::OutputPortConfig output{};
  stack::PriorityMap priorities{};  ///< of what comes in
  std::string pcap{};               ///< file; empty: none
};

struct Options {
  std::vector<PortSettings> ports;
  PortNumber memif_ports = 0;  ///< which are in `ports` behind those with a device
  std::string socket_directory;
  std::optional<std::uint64_t> seed;  ///< is there once all options are read
  std::uint16_t mtu = 0;
  double mac_ageing_s = 300;
  std::size_t mac_table_size = 4096;
  std::size_t queue_packets = 1024;
  std::string pcap;  ///< of which each port's file follows
  std::string idle = "yield";
  double stats_s = 0;
  bool json = false;
};

/// Adds them, and what makes sense of them once they are read.
void add_options(const OptionSet& app, Options& options);

/// Reads "10.0.0.5/24,fd00::5/64", or that with "@DIRECTORY" behind it.
[[nodiscard]] Expected<SegmentSettings> parse_segment(const std::string& text);

/// "run.pcapng" becomes "run.2.pcapng" for port 2.
[[nodiscard]] std::string capture_file(const std::string& path, PortNumber port);

/// Mbufs of the pool that all ports share: what their rings, output queues and faults can hold.
[[nodiscard]] std::uint32_t pool_size(const Options& options);
/// Bytes of a frame that one mbuf holds.
[[nodiscard]] std::uint16_t data_room(const Options& options);
/// Megabytes of memory for the embedded EAL.
[[nodiscard]] unsigned embedded_memory_mb(const Options& options);

}  // namespace rockhopper::apps::ethernet_switch
