// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <algorithm>

#include <netinet/in.h>

#include "stack/ethernet.h"
#include "stack/host.h"
#include "stack/host_frame.h"

namespace rockhopper::stack {
namespace {

constexpr rte_ether_addr kBroadcastMac{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
/// Neighbour messages longer than any that we could use are not read.
constexpr std::uint16_t kNeighbourMessageMax = 1280;

}  // namespace

HostDrop Host::receive_arp(const Frame& frame, std::uint64_t now_ns) {
  ArpMessage message;
  const HostDrop reason = ArpMessage::parse(frame.l3_bytes(), message);
  if (reason != HostDrop::none) return reason;
  if (rte_is_same_ether_addr(&message.sender_mac, &config_.mac) != 0)
    return HostDrop::ethernet_own_source;
  // RFC 5227, section 1.1: a probe has no sender's address and teaches none.
  const bool is_probe = message.sender_ip.is_unspecified();
  // RFC 5227, section 2.1.1: somebody has the address, or would like to have it too.
  if (claimed_by_another(is_probe ? message.target_ip : message.sender_ip))
    return HostDrop::duplicate_address;
  if (owns(message.sender_ip)) {
    defend(message.sender_ip, now_ns);
    return HostDrop::duplicate_address;
  }
  const bool to_us = owns(message.target_ip);
  if (!is_probe && addresses_.on_link(message.sender_ip) && !message.sender_ip.is_multicast()) {
    if (message.is_request) {
      neighbours_.learn(message.sender_ip, message.sender_mac, to_us, now_ns);
    } else {
      neighbours_.advertise(message.sender_ip, message.sender_mac, to_us, true, now_ns);
    }
  }
  if (!to_us) return HostDrop::arp_not_ours;
  if (!message.is_request || config_.silent) return HostDrop::none;
  const ArpMessage reply{false, config_.mac, message.target_ip, message.sender_mac,
                         message.sender_ip};
  if (send_arp(reply, message.sender_mac)) counters_.add(HostEvent::arp_replies_sent);
  return HostDrop::none;
}

HostDrop Host::receive_neighbour_message(const Frame& frame, std::uint64_t now_ns) {
  const IpHeader& ip = frame.ip;
  if (ip.hop_limit != kNeighbourHopLimit) return HostDrop::nd_bad_hop_limit;
  if (ip.payload_length > kNeighbourMessageMax) return HostDrop::nd_bad_length;
  std::uint8_t copy[kNeighbourMessageMax];
  const auto* bytes = static_cast<const std::uint8_t*>(
      rte_pktmbuf_read(frame.packet, frame.l4_offset(), ip.payload_length, copy));
  NeighbourMessage message;
  const HostDrop reason =
      NeighbourMessage::parse({bytes, ip.payload_length}, ip.source, ip.destination, message);
  if (reason != HostDrop::none) return reason;
  const bool from_nowhere = ip.source.is_unspecified();
  // RFC 4862, sections 5.4.3 and 5.4.4: the same.
  if ((!message.is_solicitation || from_nowhere) && claimed_by_another(message.target))
    return HostDrop::duplicate_address;
  if (!message.is_solicitation) {
    if (owns(message.target)) {
      defend(message.target, now_ns);
      return HostDrop::duplicate_address;
    }
    neighbours_.advertise(message.target, message.link_address, message.solicited,
                          message.override_mac, now_ns);
    return HostDrop::none;
  }
  if (!owns(message.target)) return HostDrop::nd_not_ours;
  if (!from_nowhere && message.link_address)
    neighbours_.learn(ip.source, *message.link_address, addresses_.on_link(ip.source), now_ns);
  if (config_.silent) return HostDrop::none;
  NeighbourMessage reply;
  reply.override_mac = true;
  reply.target = message.target;
  reply.link_address = config_.mac;
  bool sent = false;
  if (from_nowhere) {
    // Somebody wants our address: everyone shall know that it is taken (RFC 4861, section 7.2.4).
    sent = send_neighbour_message(reply, message.target, kAllNodesGroup,
                                  multicast_mac(kAllNodesGroup));
  } else {
    reply.solicited = true;
    sent = send_neighbour_message(reply, message.target, ip.source,
                                  message.link_address.value_or(frame.ethernet.source));
  }
  if (sent) counters_.add(HostEvent::neighbour_advertisements_sent);
  return HostDrop::none;
}

void Host::solicit(const IpAddress& target, const rte_ether_addr* probed) {
  const auto source = addresses_.source_for(target);
  if (!source) return;
  if (target.is_ipv4()) {
    const ArpMessage request{true, config_.mac, *source, {}, target};
    if (send_arp(request, probed != nullptr ? *probed : kBroadcastMac))
      counters_.add(HostEvent::arp_requests_sent);
    return;
  }
  NeighbourMessage message;
  message.is_solicitation = true;
  message.target = target;
  message.link_address = config_.mac;
  const IpAddress destination = probed != nullptr ? target : solicited_node_group(target);
  const rte_ether_addr mac = probed != nullptr ? *probed : multicast_mac(destination);
  if (send_neighbour_message(message, *source, destination, mac))
    counters_.add(HostEvent::neighbour_solicitations_sent);
}

/// Tells the link whose address this is: an ARP announcement (RFC 5227, section 3) or an
/// unsolicited advertisement (RFC 4861, section 7.2.6).
void Host::announce(const IpAddress& address) {
  if (config_.silent) return;
  if (address.is_ipv4()) {
    const ArpMessage message{true, config_.mac, address, {}, address};
    if (send_arp(message, kBroadcastMac)) counters_.add(HostEvent::arp_requests_sent);
    return;
  }
  NeighbourMessage message;
  message.override_mac = true;
  message.target = address;
  message.link_address = config_.mac;
  if (send_neighbour_message(message, address, kAllNodesGroup, multicast_mac(kAllNodesGroup)))
    counters_.add(HostEvent::neighbour_advertisements_sent);
}

/// Asks whether somebody has it, without saying that we would like to.
bool Host::send_probe(const IpAddress& address) {
  if (address.is_ipv4())
    return send_arp({true, config_.mac, IpAddress::from_ipv4(0), {}, address}, kBroadcastMac);
  NeighbourMessage message;
  message.is_solicitation = true;
  message.target = address;
  const IpAddress group = solicited_node_group(address);
  return send_neighbour_message(message, {}, group, multicast_mac(group));
}

bool Host::send_arp(const ArpMessage& message, const rte_ether_addr& destination) {
  rte_mbuf* packet = new_packet(ArpMessage::kSize);
  if (packet == nullptr) return false;
  message.emit(std::span<std::uint8_t, ArpMessage::kSize>(rte_pktmbuf_mtod(packet, std::uint8_t*),
                                                          ArpMessage::kSize));
  return send(packet, destination, RTE_ETHER_TYPE_ARP);
}

bool Host::send_neighbour_message(const NeighbourMessage& message, const IpAddress& source,
                                  const IpAddress& destination, const rte_ether_addr& mac) {
  std::array<std::uint8_t, NeighbourMessage::kSizeMax> bytes;
  const auto length = static_cast<std::uint16_t>(message.emit(bytes));
  rte_mbuf* packet = new_packet(length);
  if (packet == nullptr) return false;
  IpHeader ip;
  ip.source = source;
  ip.destination = destination;
  ip.protocol = IPPROTO_ICMPV6;
  ip.hop_limit = kNeighbourHopLimit;
  auto sum = add_checksums(rte_raw_cksum(bytes.data(), length),
                           pseudo_header_checksum(source, destination, ip.protocol, length));
  sum = static_cast<std::uint16_t>(~sum);
  std::memcpy(&bytes[kIcmpChecksumOffset], &sum, sizeof sum);
  std::memcpy(rte_pktmbuf_mtod(packet, void*), bytes.data(), length);
  return send_ip(packet, ip, mac);
}

}  // namespace rockhopper::stack
