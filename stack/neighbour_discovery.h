// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <rte_ether.h>

#include "stack/host_counters.h"
#include "stack/ip_address.h"

namespace rockhopper::stack {

/// ICMPv6 types (RFC 4443, RFC 4861); DPDK does not define them.
inline constexpr std::uint8_t kIcmpv6EchoRequest = 128;
inline constexpr std::uint8_t kIcmpv6EchoReply = 129;
inline constexpr std::uint8_t kNeighbourSolicitation = 135;
inline constexpr std::uint8_t kNeighbourAdvertisement = 136;

/// Neighbour discovery packets carry this hop limit, so that none can come through a router.
inline constexpr std::uint8_t kNeighbourHopLimit = 255;

inline constexpr IpAddress kAllNodesGroup{{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

/// A neighbour solicitation or advertisement (RFC 4861, sections 4.3 and 4.4), an ICMPv6 message.
struct NeighbourMessage {
  /// The size of what emit() writes at most: with a link-layer address option.
  static constexpr std::size_t kSizeMax = 32;

  bool is_solicitation = false;
  bool solicited = false;     ///< advertisement: S flag
  bool override_mac = false;  ///< advertisement: O flag
  IpAddress target;
  /// The address of the source (solicitation) or of the target (advertisement).
  std::optional<rte_ether_addr> link_address;

  /// Reads the ICMPv6 message `bytes` that came from `source` to `destination` and whose type is
  /// one of the two. Checks all that sections 7.1.1 and 7.1.2 ask for but hop limit and checksum.
  /// Returns HostDrop::none if all is well.
  [[nodiscard]] static HostDrop parse(std::span<const std::uint8_t> bytes, const IpAddress& source,
                                      const IpAddress& destination, NeighbourMessage& message);
  /// Writes the message with checksum 0 and returns its length.
  std::size_t emit(std::span<std::uint8_t, kSizeMax> out) const;
};

/// fe80::/64 and the modified EUI-64 interface identifier (RFC 4291, appendix A).
[[nodiscard]] IpAddress link_local_address(const rte_ether_addr& mac);

}  // namespace rockhopper::stack
