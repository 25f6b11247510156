// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/ethernet.h"

#include <cassert>
#include <cstddef>
#include <cstring>

#include <rte_byteorder.h>

namespace rockhopper::stack {

bool parse_ethernet(std::span<const std::uint8_t> bytes, const rte_mbuf* packet,
                    EthernetHeader& header) {
  if (bytes.size() < sizeof(rte_ether_hdr)) return false;
  std::memcpy(&header.source, &bytes[offsetof(rte_ether_hdr, src_addr)], sizeof header.source);
  std::memcpy(&header.destination, &bytes[offsetof(rte_ether_hdr, dst_addr)],
              sizeof header.destination);
  rte_be16_t ether_type = 0;
  std::memcpy(&ether_type, &bytes[offsetof(rte_ether_hdr, ether_type)], sizeof ether_type);
  header.length = sizeof(rte_ether_hdr);
  header.tagged = false;
  if ((packet->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) != 0) {
    header.tagged = true;
    header.vlan_tci = packet->vlan_tci;
  } else if (ether_type == rte_cpu_to_be_16(RTE_ETHER_TYPE_VLAN)) {
    rte_vlan_hdr tag;
    if (bytes.size() < sizeof(rte_ether_hdr) + sizeof tag) return false;
    std::memcpy(&tag, &bytes[sizeof(rte_ether_hdr)], sizeof tag);
    ether_type = tag.eth_proto;
    header.length = sizeof(rte_ether_hdr) + sizeof tag;
    header.tagged = true;
    header.vlan_tci = rte_be_to_cpu_16(tag.vlan_tci);
  }
  header.ether_type = rte_be_to_cpu_16(ether_type);
  return true;
}

std::uint8_t emit_ethernet(std::uint8_t* out, const rte_ether_addr& destination,
                           const rte_ether_addr& source, std::optional<std::uint16_t> vlan_tci,
                           std::uint16_t ether_type) {
  const rte_ether_hdr ethernet{destination, source,
                               rte_cpu_to_be_16(vlan_tci ? RTE_ETHER_TYPE_VLAN : ether_type)};
  std::memcpy(out, &ethernet, sizeof ethernet);
  if (!vlan_tci) return sizeof ethernet;
  const rte_vlan_hdr tag{rte_cpu_to_be_16(*vlan_tci), rte_cpu_to_be_16(ether_type)};
  std::memcpy(out + sizeof ethernet, &tag, sizeof tag);
  return sizeof ethernet + sizeof tag;
}

rte_ether_addr multicast_mac(const IpAddress& group) {
  assert(group.is_multicast());
  const auto& b = group.bytes;
  if (group.is_ipv4()) {
    return {{0x01, 0x00, 0x5e, static_cast<std::uint8_t>(b[13] & 0x7f), b[14], b[15]}};
  }
  return {{0x33, 0x33, b[12], b[13], b[14], b[15]}};
}

}  // namespace rockhopper::stack
