// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>

#include <rte_ether.h>
#include <rte_mempool.h>

#include "stack/link.h"
#include "stack/priority_map.h"

namespace rockhopper::stack {

/// Where packets go that leave through sockets of the kernel, which knows the way: nobody is asked
/// for an address, and none is made up. Addresses may be those of the loopback device.
struct KernelSocket {
  rte_ether_addr mac{};           ///< of all stations
  std::uint16_t source_port = 0;  ///< of all datagrams, whatever their flows say
};

struct HostConfig {
  rte_ether_addr mac{};
  std::uint16_t mtu = 1500;
  std::optional<std::uint16_t>
      vlan_id{};  ///< 1 to 4094: all frames carry this tag, others are dropped
  /// The priority of a datagram's tag: Trust::pcp, that of its flow; Trust::dscp, by its DSCP.
  PriorityMap priorities{};
  /// Without a VLAN: datagrams carry a tag of VLAN id 0, for its priority (IEEE 802.1Q, 9.6).
  bool priority_tags = false;
  bool ipv4_checksum_offload = false;  ///< the link computes the IPv4 header checksum
  rte_mempool* packet_pool = nullptr;  ///< for ARP, neighbour discovery and echo; not owned
  /// Another host of the same addresses answers and announces: this one asks and learns only. For
  /// all but one of the lcores that serve one port.
  bool silent = false;
  /// Other hosts have this MAC address and the same IP addresses: a frame from there to a group is
  /// one of theirs, or the copy of an own one that a member of the group is to get.
  bool shared_mac = false;
  std::optional<KernelSocket> socket{};
  /// What has one of the own addresses as its destination stays in the memory of this machine, and
  /// is sent without an ICRC by those who make one (kWithoutIcrc).
  bool omits_icrc = false;
  std::uint64_t seed = 1;  ///< for jitter
  std::uint32_t neighbour_limit = 4096;
  DropObserver* drop_observer = nullptr;  ///< not owned; may be null
};

}  // namespace rockhopper::stack
