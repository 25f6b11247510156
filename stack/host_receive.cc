// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <algorithm>

#include <netinet/in.h>
#include <rte_prefetch.h>

#include "stack/checksum_offload.h"
#include "stack/host.h"
#include "stack/host_frame.h"

namespace rockhopper::stack {
namespace {

constexpr std::uint8_t kIpv4Loopback = 127;

/// Whether no packet may claim to come from there (RFC 1122, section 3.2.1.3; RFC 4291, 2.5
/// and 2.7).
bool is_bad_source(const IpAddress& address) {
  if (address.is_unspecified() || address.is_multicast()) return true;
  if (address.is_ipv4())
    return address.ipv4() == INADDR_BROADCAST || address.ipv4() >> 24 == kIpv4Loopback;
  return address == IpAddress{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
}

}  // namespace

void Host::receive(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  now_ns_ = now_ns;
  counters_.add(HostEvent::rx_packets, count);
  for (const UdpBinding& binding : udp_bindings_) {
    binding.client->begin_receive({packets, count}, now_ns);
  }
  for (std::uint16_t i = 0; i < count; ++i) {
    if (i + 1 < count) rte_prefetch0(rte_pktmbuf_mtod(packets[i + 1], const void*));
    receive_packet(packets[i], now_ns);
  }
  for (const UdpBinding& binding : udp_bindings_) binding.client->end_receive();
}

void Host::receive_packet(rte_mbuf* packet, std::uint64_t now_ns) {
  UdpDatagram datagram;
  if (UdpClient* client = known_headers_.match(packet, datagram)) {
    counters_.add(HostEvent::rx_udp_datagrams);
    client->on_udp(datagram, now_ns);
    return;
  }
  std::uint8_t copy[Frame::kHeaderMax];
  const std::uint32_t length = std::min(rte_pktmbuf_pkt_len(packet), Frame::kHeaderMax);
  const auto* bytes = static_cast<const std::uint8_t*>(rte_pktmbuf_read(packet, 0, length, copy));
  Frame frame{packet, {bytes, length}};
  const HostDrop reason = receive_ethernet(frame, now_ns);
  if (reason != HostDrop::none) {
    counters_.add(reason);
    if (config_.drop_observer != nullptr) config_.drop_observer->on_drop(packet, to_string(reason));
  }
  rte_pktmbuf_free(frame.packet);
}

HostDrop Host::receive_ethernet(Frame& frame, std::uint64_t now_ns) {
  if (!parse_ethernet(frame.headers, frame.packet, frame.ethernet))
    return HostDrop::ethernet_truncated;
  if (const HostDrop reason = check_stations(frame); reason != HostDrop::none) return reason;
  HostDrop reason = HostDrop::ethernet_unknown_type;
  switch (frame.ethernet.ether_type) {
    case RTE_ETHER_TYPE_IPV4:
      reason = parse_ipv4(frame.l3_bytes(), frame.l3_length(), ip_checksum_verified(frame.packet),
                          frame.ip);
      return reason == HostDrop::none ? receive_ip(frame, now_ns) : reason;
    case RTE_ETHER_TYPE_IPV6:
      reason = parse_ipv6(frame.l3_bytes(), frame.l3_length(), frame.ip);
      return reason == HostDrop::none ? receive_ip(frame, now_ns) : reason;
    case RTE_ETHER_TYPE_ARP:
      return receive_arp(frame, now_ns);
    default:
      return reason;
  }
}

HostDrop Host::check_stations(const Frame& frame) const {
  const EthernetHeader& ethernet = frame.ethernet;
  if (rte_is_valid_assigned_ether_addr(&ethernet.source) == 0) return HostDrop::ethernet_bad_source;
  const bool to_us = rte_is_same_ether_addr(&ethernet.destination, &config_.mac) != 0;
  // Group addresses are told apart by their IP address or ARP message.
  if (!to_us && rte_is_unicast_ether_addr(&ethernet.destination) != 0)
    return HostDrop::ethernet_not_ours;
  if (!to_us && rte_is_same_ether_addr(&ethernet.source, &config_.mac) != 0)
    return HostDrop::ethernet_own_source;
  // A tag with VLAN id 0 gives a priority only (IEEE 802.1Q, section 9.6).
  const std::uint16_t vlan_id = ethernet.tagged ? ethernet.vlan_tci & kVlanIdMask : 0;
  if (vlan_id != config_.vlan_id.value_or(0)) return HostDrop::ethernet_wrong_vlan;
  return HostDrop::none;
}

HostDrop Host::receive_ip(Frame& frame, std::uint64_t now_ns) {
  const bool ipv4 = frame.ip.source.is_ipv4();
  const HostDrop reason = check_addresses(frame);
  if (reason == HostDrop::ip_own_source && !ipv4 && frame.ip.hop_limit == kNeighbourHopLimit) {
    // It has crossed no router: a station of this link uses our address.
    defend(frame.ip.source, now_ns);
    return HostDrop::duplicate_address;
  }
  if (reason != HostDrop::none) return reason;
  if (frame.ip.protocol == IPPROTO_UDP) return receive_udp(frame, now_ns);
  if (ipv4 && frame.ip.protocol == IPPROTO_ICMP) return receive_icmp(frame, now_ns);
  if (!ipv4 && frame.ip.protocol == IPPROTO_ICMPV6) return receive_icmpv6(frame, now_ns);
  if (ipv4 && frame.ip.protocol == IPPROTO_IGMP) return receive_igmp(frame, now_ns);
  return HostDrop::ip_unknown_protocol;
}

HostDrop Host::check_addresses(const Frame& frame) const {
  const IpHeader& ip = frame.ip;
  const bool is_icmpv6 = !ip.destination.is_ipv4() && ip.protocol == IPPROTO_ICMPV6;
  // Duplicate address detection asks from the unspecified address (RFC 4862, section 5.4.2), and
  // switches without an address ask so for members (RFC 4541, section 2.1.1).
  const bool asks_unspecified =
      (is_icmpv6 || ip.protocol == IPPROTO_IGMP) && ip.source.is_unspecified();
  if (is_bad_source(ip.source) && !asks_unspecified) return HostDrop::ip_bad_source;
  const bool from_us = rte_is_same_ether_addr(&frame.ethernet.source, &config_.mac) != 0;
  if (!from_us && owns(ip.source)) return HostDrop::ip_own_source;
  if (owns(ip.destination)) {
    // RFC 1122, section 3.3.6: no unicast packet comes in a broadcast frame.
    return rte_is_unicast_ether_addr(&frame.ethernet.destination) != 0 ? HostDrop::none
                                                                       : HostDrop::ip_not_ours;
  }
  if (!ip.destination.is_multicast()) return HostDrop::ip_not_ours;
  return takes_group(ip) ? HostDrop::none : HostDrop::ip_group_not_joined;
}

HostDrop Host::receive_udp(Frame& frame, std::uint64_t now_ns) {
  const IpHeader& ip = frame.ip;
  rte_udp_hdr udp;
  if (ip.payload_length < sizeof udp) return HostDrop::udp_truncated;
  std::memcpy(&udp, frame.headers.data() + frame.l4_offset(), sizeof udp);
  const std::uint16_t length = rte_be_to_cpu_16(udp.dgram_len);
  if (length < sizeof udp || length > ip.payload_length) return HostDrop::udp_bad_length;
  const std::uint16_t port = rte_be_to_cpu_16(udp.dst_port);
  const auto binding =
      std::find_if(udp_bindings_.begin(), udp_bindings_.end(),
                   [&](const UdpBinding& candidate) { return candidate.port == port; });
  if (binding == udp_bindings_.end()) return HostDrop::udp_no_listener;
  // RoCEv2 sends 0, its ICRC covers the addresses: the case that RFC 6936 allows over IPv6 too.
  if (udp.dgram_cksum != 0 && !l4_checksum_verified(frame.packet)) {
    const std::uint16_t sum =
        add_checksums(pseudo_header_checksum(ip.source, ip.destination, ip.protocol, length),
                      raw_checksum(frame.packet, frame.l4_offset(), length));
    if (sum != 0xffff) return HostDrop::udp_bad_checksum;
  }
  counters_.add(HostEvent::rx_udp_datagrams);
  const UdpDatagram datagram{
      frame.packet,
      ip.source,
      ip.destination,
      rte_be_to_cpu_16(udp.src_port),
      port,
      frame.ethernet.length,
      static_cast<std::uint16_t>(frame.l4_offset() + sizeof udp),
      static_cast<std::uint16_t>(length - sizeof udp),
      ip.traffic_class,
      ip.hop_limit,
  };
  if (udp.dgram_cksum == 0) known_headers_.remember(datagram, binding->client);
  frame.packet = nullptr;
  binding->client->on_udp(datagram, now_ns);
  return HostDrop::none;
}

}  // namespace rockhopper::stack
