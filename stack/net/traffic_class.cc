// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/net/traffic_class.h"

#include <cstddef>
#include <cstring>
#include <optional>

#include <rte_byteorder.h>
#include <rte_ether.h>
#include <rte_ip.h>

#include "stack/byte_order.h"
#include "stack/checksum.h"
#include "stack/ecn.h"

namespace rockhopper::stack::net {
namespace {

constexpr std::uint16_t kNotIp = 0;

/// Where a frame's IP header begins, and what its VLAN tag says.
struct Frame {
  std::uint16_t l3_offset = kNotIp;
  bool ipv4 = false;
  std::optional<std::uint8_t> tag_priority;
  std::uint8_t traffic_class = 0;
};

/// Reads what lies in the first segment; a frame cut within its headers is none of IP.
Frame read(const rte_mbuf* packet) {
  Frame frame;
  const auto* bytes = rte_pktmbuf_mtod(packet, const std::uint8_t*);
  const std::uint32_t length = packet->data_len;
  std::uint32_t offset = sizeof(rte_ether_hdr);
  if (length < offset) return frame;
  std::uint16_t type = load_be16(bytes + offset - 2);
  if (type == RTE_ETHER_TYPE_VLAN && length >= offset + sizeof(rte_vlan_hdr)) {
    frame.tag_priority = static_cast<std::uint8_t>(bytes[offset] >> 5);
    offset += static_cast<std::uint32_t>(sizeof(rte_vlan_hdr));
    type = load_be16(bytes + offset - 2);
  }
  if (type == RTE_ETHER_TYPE_IPV4 && length >= offset + sizeof(rte_ipv4_hdr)) {
    frame.ipv4 = true;
    frame.l3_offset = static_cast<std::uint16_t>(offset);
    frame.traffic_class = bytes[offset + offsetof(rte_ipv4_hdr, type_of_service)];
  } else if (type == RTE_ETHER_TYPE_IPV6 && length >= offset + sizeof(rte_ipv6_hdr)) {
    frame.l3_offset = static_cast<std::uint16_t>(offset);
    frame.traffic_class = static_cast<std::uint8_t>(load_be16(bytes + offset) >> 4);
  }
  return frame;
}

}  // namespace

std::uint8_t priority_of(const rte_mbuf* packet, const PriorityMap& map) {
  const Frame frame = read(packet);
  const bool is_ip = frame.l3_offset != kNotIp;
  if (is_ip && (map.trust == Trust::dscp || !frame.tag_priority)) {
    return map.of_traffic_class(frame.traffic_class);
  }
  return frame.tag_priority.value_or(0);
}

CeMark mark_congestion_experienced(rte_mbuf* packet) {
  const Frame frame = read(packet);
  const std::uint8_t ecn = frame.traffic_class & kEcnMask;
  if (frame.l3_offset == kNotIp || ecn == 0) return CeMark::not_capable;
  if (ecn == kEcnCe) return CeMark::marked;
  if (rte_mbuf_refcnt_read(packet) != 1 || !RTE_MBUF_DIRECT(packet)) return CeMark::not_writable;
  set_traffic_class(packet, frame.l3_offset,
                    static_cast<std::uint8_t>(frame.traffic_class | kEcnCe));
  return CeMark::marked;
}

void set_traffic_class(rte_mbuf* packet, std::uint32_t l3_offset, std::uint8_t traffic_class) {
  auto* l3 = rte_pktmbuf_mtod_offset(packet, std::uint8_t*, l3_offset);
  if (l3[0] >> 4 != IPVERSION) {
    l3[0] = static_cast<std::uint8_t>((l3[0] & 0xf0) | traffic_class >> 4);
    l3[1] = static_cast<std::uint8_t>((l3[1] & 0x0f) | traffic_class << 4);
    return;
  }
  rte_be16_t before = 0;
  std::memcpy(&before, l3, sizeof before);
  l3[offsetof(rte_ipv4_hdr, type_of_service)] = traffic_class;
  rte_be16_t after = 0;
  std::memcpy(&after, l3, sizeof after);
  if ((packet->ol_flags & RTE_MBUF_F_TX_IP_CKSUM) != 0) return;
  // HC' = ~(~HC + ~m + m')
  auto* field = l3 + offsetof(rte_ipv4_hdr, hdr_checksum);
  rte_be16_t checksum = 0;
  std::memcpy(&checksum, field, sizeof checksum);
  const auto inverted = [](rte_be16_t value) { return static_cast<std::uint16_t>(~value); };
  checksum = inverted(add_checksums(add_checksums(inverted(checksum), inverted(before)), after));
  std::memcpy(field, &checksum, sizeof checksum);
}

}  // namespace rockhopper::stack::net
