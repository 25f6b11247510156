// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <rte_ether.h>
#include <rte_mbuf.h>

#include "stack/ip_address.h"

namespace rockhopper::stack {

/// An Ethernet II header with at most one IEEE 802.1Q tag.
struct EthernetHeader {
  rte_ether_addr source;
  rte_ether_addr destination;
  std::uint16_t ether_type;  ///< of what follows the tag
  std::uint8_t length;       ///< 14, or 18 with a tag in the frame
  bool tagged;
  std::uint16_t vlan_tci;  ///< PCP, DEI and VLAN id, if tagged
};

inline constexpr std::uint16_t kVlanIdMask = 0x0fff;

/// Reads the header at the front of `bytes`, the first of `packet`, whose offload fields tell of a
/// tag that the NIC took out. Returns false if it is not complete.
[[nodiscard]] bool parse_ethernet(std::span<const std::uint8_t> bytes, const rte_mbuf* packet,
                                  EthernetHeader& header);

/// Writes the header, with a tag if `vlan_tci` is given, and returns its length. `out` has room for
/// 18 bytes.
std::uint8_t emit_ethernet(std::uint8_t* out, const rte_ether_addr& destination,
                           const rte_ether_addr& source, std::optional<std::uint16_t> vlan_tci,
                           std::uint16_t ether_type);

/// The group MAC of a multicast IP address (RFC 1112, section 6.4; RFC 2464, section 7).
[[nodiscard]] rte_ether_addr multicast_mac(const IpAddress& group);

}  // namespace rockhopper::stack
