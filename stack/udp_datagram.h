// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <rte_mbuf.h>

#include "stack/ip_address.h"

namespace rockhopper::stack {

/// The longest lower headers of a datagram: Ethernet with a tag, IPv6, UDP.
inline constexpr std::uint32_t kUdpHeaderBytes = 8;
inline constexpr std::uint32_t kDatagramHeadersMax = 18 + 40 + kUdpHeaderBytes;

/// A received UDP datagram whose Ethernet, VLAN, IP and UDP headers have been checked and which is
/// addressed to this host. The mbuf may be a chain. Ownership of `packet` goes with the datagram.
struct UdpDatagram {
  rte_mbuf* packet;
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port;
  std::uint16_t destination_port;
  std::uint16_t l3_offset;       ///< of the IP header from the start of the frame
  std::uint16_t payload_offset;  ///< of the first byte after the UDP header
  std::uint16_t payload_length;  ///< by the UDP length; the frame may be longer (Ethernet padding)
  std::uint8_t traffic_class;    ///< DSCP and ECN as in the IP header
  std::uint8_t hop_limit;
  /// All datagrams of a host with the same number, but 0, have the same Ethernet header, addresses
  /// and offsets, and IP headers without options or extensions.
  std::uint64_t known = 0;
};

}  // namespace rockhopper::stack
