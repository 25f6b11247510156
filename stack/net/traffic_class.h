// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <rte_mbuf.h>

#include "stack/priority_map.h"

namespace rockhopper::stack::net {

/// The priority in which a port queues a frame: what `map` trusts. A frame without that, untagged
/// or no IP packet, has the other's, and one with neither 0.
[[nodiscard]] std::uint8_t priority_of(const rte_mbuf* packet, const PriorityMap& map);

/// What became of a request to mark a packet.
enum class CeMark : std::uint8_t {
  marked,        ///< also if it had the mark already
  not_capable,   ///< not ECN-capable transport, or no IP packet
  not_writable,  ///< others hold references to the bytes, or the header lies in several segments
};

/// Sets "congestion experienced" in the IP header of an ECN-capable packet, and mends the IPv4
/// checksum (RFC 1624). Neither UDP checksum nor ICRC cover the field.
[[nodiscard]] CeMark mark_congestion_experienced(rte_mbuf* packet);

/// Replaces DSCP and ECN in the header of an IP packet whose header begins at `l3_offset` of its
/// first segment, and mends the IPv4 checksum, unless the device is to compute it.
void set_traffic_class(rte_mbuf* packet, std::uint32_t l3_offset, std::uint8_t traffic_class);

}  // namespace rockhopper::stack::net
