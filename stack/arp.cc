// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/arp.h"

#include <cstring>

#include <rte_byteorder.h>

namespace rockhopper::stack {

HostDrop ArpMessage::parse(std::span<const std::uint8_t> bytes, ArpMessage& message) {
  rte_arp_hdr arp;
  if (bytes.size() < sizeof arp) return HostDrop::arp_truncated;
  std::memcpy(&arp, bytes.data(), sizeof arp);
  if (arp.arp_hardware != rte_cpu_to_be_16(RTE_ARP_HRD_ETHER) ||
      arp.arp_protocol != rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) ||
      arp.arp_hlen != RTE_ETHER_ADDR_LEN || arp.arp_plen != sizeof arp.arp_data.arp_sip) {
    return HostDrop::arp_unsupported;
  }
  const std::uint16_t operation = rte_be_to_cpu_16(arp.arp_opcode);
  if (operation != RTE_ARP_OP_REQUEST && operation != RTE_ARP_OP_REPLY) {
    return HostDrop::arp_unsupported;
  }
  message.is_request = operation == RTE_ARP_OP_REQUEST;
  message.sender_mac = arp.arp_data.arp_sha;
  message.sender_ip = IpAddress::from_ipv4(rte_be_to_cpu_32(arp.arp_data.arp_sip));
  message.target_mac = arp.arp_data.arp_tha;
  message.target_ip = IpAddress::from_ipv4(rte_be_to_cpu_32(arp.arp_data.arp_tip));
  if (rte_is_valid_assigned_ether_addr(&message.sender_mac) == 0) return HostDrop::arp_bad_sender;
  return HostDrop::none;
}

void ArpMessage::emit(std::span<std::uint8_t, kSize> out) const {
  const rte_arp_hdr arp{rte_cpu_to_be_16(RTE_ARP_HRD_ETHER),
                        rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4),
                        RTE_ETHER_ADDR_LEN,
                        sizeof arp.arp_data.arp_sip,
                        rte_cpu_to_be_16(is_request ? RTE_ARP_OP_REQUEST : RTE_ARP_OP_REPLY),
                        {sender_mac, rte_cpu_to_be_32(sender_ip.ipv4()), target_mac,
                         rte_cpu_to_be_32(target_ip.ipv4())}};
  std::memcpy(out.data(), &arp, sizeof arp);
}

}  // namespace rockhopper::stack
