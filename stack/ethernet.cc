// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/ethernet.h"

#include <cassert>
#include <cstring>

#include <rte_byteorder.h>

namespace rockhopper::stack {

std::optional<EthernetHeader> parse_ethernet(std::span<const std::uint8_t> bytes,
                                             const rte_mbuf* packet) {
  rte_ether_hdr ethernet;
  if (bytes.size() < sizeof ethernet) return std::nullopt;
  std::memcpy(&ethernet, bytes.data(), sizeof ethernet);
  EthernetHeader header{ethernet.src_addr,
                        ethernet.dst_addr,
                        rte_be_to_cpu_16(ethernet.ether_type),
                        sizeof ethernet,
                        false,
                        0};
  if ((packet->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) != 0) {
    header.tagged = true;
    header.vlan_tci = packet->vlan_tci;
  } else if (header.ether_type == RTE_ETHER_TYPE_VLAN) {
    rte_vlan_hdr tag;
    if (bytes.size() < sizeof ethernet + sizeof tag) return std::nullopt;
    std::memcpy(&tag, bytes.data() + sizeof ethernet, sizeof tag);
    header.ether_type = rte_be_to_cpu_16(tag.eth_proto);
    header.length = sizeof ethernet + sizeof tag;
    header.tagged = true;
    header.vlan_tci = rte_be_to_cpu_16(tag.vlan_tci);
  }
  return header;
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
  if (group.is_ipv4())
    return {{0x01, 0x00, 0x5e, static_cast<std::uint8_t>(b[13] & 0x7f), b[14], b[15]}};
  return {{0x33, 0x33, b[12], b[13], b[14], b[15]}};
}

}  // namespace rockhopper::stack
