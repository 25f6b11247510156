// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/host_sender.h"

#include <cstring>

#include <netinet/in.h>
#include <rte_ip.h>

#include "stack/checksum.h"
#include "stack/ethernet.h"

namespace rockhopper::stack {

rte_mbuf* HostSender::new_packet(std::uint16_t length) {
  rte_mbuf* packet = rte_pktmbuf_alloc(config_.packet_pool);
  if (packet != nullptr && rte_pktmbuf_append(packet, length) != nullptr) return packet;
  rte_pktmbuf_free(packet);
  counters_.add(HostEvent::tx_no_buffer);
  return nullptr;
}

bool HostSender::put_before(rte_mbuf* packet, std::span<const std::uint8_t> header) {
  char* front = rte_pktmbuf_prepend(packet, static_cast<std::uint16_t>(header.size()));
  if (front == nullptr) {
    counters_.add(HostEvent::tx_no_buffer);
    rte_pktmbuf_free(packet);
    return false;
  }
  std::memcpy(front, header.data(), header.size());
  return true;
}

bool HostSender::send(rte_mbuf* packet, const rte_ether_addr& destination,
                      std::uint16_t ether_type) {
  std::uint8_t header[sizeof(rte_ether_hdr) + sizeof(rte_vlan_hdr)];
  const std::uint8_t length =
      emit_ethernet(header, destination, config_.mac, config_.vlan_id, ether_type);
  if (!put_before(packet, {header, length})) return false;
  if (output_.push(packet)) return true;
  counters_.add(HostEvent::tx_queue_full);
  rte_pktmbuf_free(packet);
  return false;
}

bool HostSender::send_ip(rte_mbuf* payload, IpHeader header, const rte_ether_addr& destination) {
  header.payload_length = static_cast<std::uint16_t>(rte_pktmbuf_pkt_len(payload));
  std::uint8_t bytes[kIpHeaderMax];
  const std::uint8_t length = emit_ip(header, bytes);
  if (!put_before(payload, {bytes, length})) return false;
  return send(payload, destination,
              header.source.is_ipv4() ? RTE_ETHER_TYPE_IPV4 : RTE_ETHER_TYPE_IPV6);
}

bool HostSender::send_message(std::span<std::uint8_t> message, const IpHeader& header,
                              const rte_ether_addr& destination) {
  const auto length = static_cast<std::uint16_t>(message.size());
  if (header.protocol == IPPROTO_ICMPV6) {
    auto sum = add_checksums(
        rte_raw_cksum(message.data(), length),
        pseudo_header_checksum(header.source, header.destination, header.protocol, length));
    sum = static_cast<std::uint16_t>(~sum);
    std::memcpy(&message[kIcmpChecksumOffset], &sum, sizeof sum);
  }
  rte_mbuf* packet = new_packet(length);
  if (packet == nullptr) return false;
  std::memcpy(rte_pktmbuf_mtod(packet, void*), message.data(), length);
  return send_ip(packet, header, destination);
}

}  // namespace rockhopper::stack
