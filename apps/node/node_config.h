// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <rte_ether.h>
#include <rte_mempool.h>

#include "apps/node/personality/personality.h"
#include "dc/endpoint.h"
#include "roce/engine.h"
#include "stack/clock.h"
#include "stack/error.h"
#include "stack/fault_config.h"
#include "stack/host.h"
#include "stack/idle.h"
#include "stack/interface_address.h"
#include "stack/ip_address.h"
#include "stack/link.h"
#include "stack/memif.h"
#include "stack/pcap_writer.h"

namespace rockhopper {

using stack::InterfaceAddress;

/// A neighbour that is not asked for its MAC address.
struct StaticNeighbour {
  stack::IpAddress address{};
  rte_ether_addr mac{};
};

/// A memif link: rings in memory that two processes share. With several, their ids count from
/// `memif.id` on, each leads to another process, and a switch joins them, so that these reach each
/// other too. `memif.device` is chosen by the node.
struct MemifPort {
  stack::MemifConfig memif{};
  std::uint16_t links = 1;
};

/// A device of DPDK: devargs to plug, as "net_af_packet0,iface=eth1"; or the name or the number of
/// a port that the EAL has found.
struct DevicePort {
  std::string device{};
};

/// Shared memory, over which all processes of this user and network namespace reach each other.
/// They are one port: with the same addresses, and queue pairs whose numbers differ.
struct SegmentPort {
  /// Where they meet: a folder of this user alone. Empty: stack::segment::directory().
  std::string directory{};
};

/// Ordinary UDP sockets, which need no right: the kernel finds the way. The node's addresses are of
/// this machine's interfaces, and no other program has UDP port 4791 of them.
struct UdpPort {};

/// Links from outside, one for each shard: of a simulated network, of a cable between two nodes of
/// a process, or the queues of a port. They are not owned.
struct LinkPort {
  std::vector<stack::Link*> links{};
};

/// No link. The caller moves the packets by Host::receive() and Host::transmit() of each shard, and
/// turns of the node do nothing.
struct NoPort {
  rte_ether_addr mac{};
  std::uint16_t mtu = 1500;
};

/// Where a node's packets go to and come from.
using NodePort = std::variant<MemifPort, DevicePort, SegmentPort, UdpPort, LinkPort, NoPort>;

/// Largest IP packet of a memif link or a segment without NodeConfig::mtu: a path MTU of 4096 fits.
inline constexpr std::uint16_t kMemifMtu = 4300;

/// What a node is made of. Nothing but a port and an address is needed.
struct NodeConfig {
  NodePort port = MemifPort{};
  /// Largest IP packet in bytes. 0: of memif and segments kMemifMtu, of a device and UDP 1500, of
  /// links what they say.
  std::uint16_t mtu = 0;
  /// The node's addresses: in this order its GID table. Used at once, without a probe.
  std::vector<InterfaceAddress> addresses{};
  std::optional<stack::IpAddress> gateway{};
  std::vector<StaticNeighbour> neighbours{};
  /// Engines, each with a queue of the port and an lcore of its own: a power of two up to
  /// stack::kShardsMax. Several exclude `pcap`, `faults`, `personality`, `packet_trace`, a segment
  /// and UDP.
  std::uint16_t shards = 1;

  /// Further settings of each shard's host and engine. The node sets what follows from its other
  /// parts: `mac`, `mtu`, `ipv4_checksum_offload`, `socket`, `host`, `shards`, `shard`, `qpns` of a
  /// segment, and `silent` of all shards but the first and of UDP; and, where these are null
  /// or 0, `packet_pool`, `random`, `drop_observer` and `line_rate`. A generator that is given
  /// serves all shards, so they have to be on one thread then.
  stack::HostConfig host{};
  roce::EngineConfig engine{};
  /// Dynamic connections on each shard; they can be opened later too.
  std::optional<dc::EndpointConfig> dc{};

  /// The capture of what is on the wire, with the reasons of drops; an empty path: none. An empty
  /// interface name is the port's, and an offset of 0 that of the node's own clock.
  stack::PcapConfig pcap{};
  /// What impairs the link, behind the capture as seen from the wire.
  std::optional<stack::FaultConfig> faults{};
  /// What the node looks like to its peers, above the faults. It sets parts of `host` and `engine`.
  std::optional<Personality> personality{};
  /// Where a line for each packet goes. Not owned; null: nowhere.
  std::FILE* packet_trace = nullptr;
  /// In front of the names of the node's groups of counters in telemetry ("NAME/engine"). A
  /// process can have one node without a name, and nodes on links from outside have counters in
  /// telemetry only with one.
  std::string name{};

  /// The time. Not owned; null: a clock of its own that reads the time stamp counter.
  const stack::Clock* clock = nullptr;
  /// What turns do when no packet has moved for a while.
  stack::IdlePolicy idle = stack::IdlePolicy::poll;
  /// How long open() and wait_for_link() wait for the other end.
  std::uint32_t connect_timeout_ms = 10'000;
  /// Asked while they wait: an error ends the wait and is what they return. May be empty.
  std::function<Expected<void>()> keep_waiting{};
  /// Packets to send. Not owned, and with room for a frame of `mtu`; null: a pool of the node's
  /// own. Links from outside that may still have packets when the node ends, as those of a
  /// simulated network, need one that outlives them.
  rte_mempool* packet_pool = nullptr;
};

/// The node's largest IP packet in bytes.
[[nodiscard]] std::uint16_t mtu_of(const NodeConfig& config);

/// Megabytes that such a node needs of an EAL without huge pages (stack::EmbeddedConfig). Those of
/// the nodes of a process add up.
[[nodiscard]] unsigned memory_mb(const NodeConfig& config);

}  // namespace rockhopper
