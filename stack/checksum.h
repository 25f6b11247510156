// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <rte_mbuf.h>

#include "stack/ip_address.h"

namespace rockhopper::stack {

/// The Internet checksum's one's complement sum (RFC 1071), folded, not inverted, in the byte order
/// of memory, over `length` bytes from `offset` of a packet that may be a chain. Those bytes must
/// be inside the packet.
[[nodiscard]] std::uint16_t raw_checksum(const rte_mbuf* packet, std::uint32_t offset,
                                         std::uint32_t length);

/// The same over the pseudo-header of UDP (RFC 768; RFC 8200, section 8.1) or ICMPv6.
[[nodiscard]] std::uint16_t pseudo_header_checksum(const IpAddress& source,
                                                   const IpAddress& destination,
                                                   std::uint8_t protocol, std::uint32_t length);

/// The one's complement sum of two sums.
[[nodiscard]] constexpr std::uint16_t add_checksums(std::uint16_t a, std::uint16_t b) {
  const std::uint32_t sum = std::uint32_t{a} + b;
  return static_cast<std::uint16_t>((sum & 0xffff) + (sum >> 16));
}

}  // namespace rockhopper::stack
