// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stack/host_counters.h"
#include "stack/ip_address.h"

namespace rockhopper::stack {

inline constexpr std::uint8_t kDefaultHopLimit = 64;

/// In the first four bits of an IPv6 header.
inline constexpr unsigned kIpv6Version = 6;

/// An IPv4 header without options or an IPv6 header without extension headers, of a packet that is
/// not a fragment. With one exception: IGMP and MLD carry a Router Alert (RFC 2113, RFC 2711).
struct IpHeader {
  IpAddress source;
  IpAddress destination;
  std::uint8_t protocol = 0;
  std::uint8_t traffic_class = 0;  ///< DSCP and ECN
  std::uint8_t hop_limit = kDefaultHopLimit;
  std::uint8_t length = 0;  ///< of the headers, 20 or 40, 24 or 48 with an alert; set by parsing
  bool router_alert = false;
  std::uint16_t payload_length = 0;
  std::uint32_t flow_label = 0;  ///< IPv6 only
};

/// Checks and reads the IPv4 header at the front of `bytes`. `frame_length` counts the bytes from
/// there to the end of the frame, of which `bytes` may be the first part. The checksum is computed
/// unless `checksum_is_good` says that the NIC did. Returns HostDrop::none if all is well.
[[nodiscard]] HostDrop parse_ipv4(std::span<const std::uint8_t> bytes, std::uint32_t frame_length,
                                  bool checksum_is_good, IpHeader& header);
[[nodiscard]] HostDrop parse_ipv6(std::span<const std::uint8_t> bytes, std::uint32_t frame_length,
                                  IpHeader& header);

/// The longest that emit_ip() writes.
inline constexpr std::size_t kIpHeaderMax = 48;

/// Writes the header of the source's family, checksum included, and returns its length. IPv4
/// packets are atomic datagrams: DF set, identification 0 (RFC 6864, section 4.1).
std::uint8_t emit_ip(const IpHeader& header, std::uint8_t* out);

}  // namespace rockhopper::stack
