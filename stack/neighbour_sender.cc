// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/neighbour_sender.h"

#include <array>
#include <cstdint>
#include <span>

#include <netinet/in.h>

#include "stack/ethernet.h"

namespace rockhopper::stack {
namespace {

constexpr rte_ether_addr kBroadcastMac{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

}  // namespace

void NeighbourSender::solicit(const IpAddress& target, const rte_ether_addr* probed) {
  const auto source = host_.addresses.source_for(target);
  if (!source) return;
  const rte_ether_addr& own_mac = host_.config.mac;
  if (target.is_ipv4()) {
    const ArpMessage request{true, own_mac, *source, {}, target};
    if (send_arp(request, probed != nullptr ? *probed : kBroadcastMac)) {
      host_.counters.add(HostEvent::arp_requests_sent);
    }
    return;
  }
  NeighbourMessage message;
  message.is_solicitation = true;
  message.target = target;
  message.link_address = own_mac;
  const IpAddress destination = probed != nullptr ? target : solicited_node_group(target);
  const rte_ether_addr mac = probed != nullptr ? *probed : multicast_mac(destination);
  if (send_message(message, *source, destination, mac)) {
    host_.counters.add(HostEvent::neighbour_solicitations_sent);
  }
}

void NeighbourSender::announce(const IpAddress& address) {
  if (host_.config.silent) return;
  if (!address.is_ipv4()) return advertise(address, {}, {});
  const ArpMessage message{true, host_.config.mac, address, {}, address};
  if (send_arp(message, kBroadcastMac)) host_.counters.add(HostEvent::arp_requests_sent);
}

bool NeighbourSender::probe(const IpAddress& address) {
  if (address.is_ipv4()) {
    return send_arp({true, host_.config.mac, IpAddress::from_ipv4(0), {}, address}, kBroadcastMac);
  }
  NeighbourMessage message;
  message.is_solicitation = true;
  message.target = address;
  const IpAddress group = solicited_node_group(address);
  return send_message(message, {}, group, multicast_mac(group));
}

void NeighbourSender::reply(const ArpMessage& request) {
  const ArpMessage reply{false, host_.config.mac, request.target_ip, request.sender_mac,
                         request.sender_ip};
  if (send_arp(reply, request.sender_mac)) host_.counters.add(HostEvent::arp_replies_sent);
}

void NeighbourSender::advertise(const IpAddress& address, const IpAddress& asker,
                                const rte_ether_addr& station) {
  NeighbourMessage message;
  message.solicited = !asker.is_unspecified();
  message.override_mac = true;
  message.target = address;
  message.link_address = host_.config.mac;
  const bool sent = message.solicited ? send_message(message, address, asker, station)
                                      : send_message(message, address, kAllNodesGroup,
                                                     multicast_mac(kAllNodesGroup));
  if (sent) host_.counters.add(HostEvent::neighbour_advertisements_sent);
}

bool NeighbourSender::send_arp(const ArpMessage& message, const rte_ether_addr& destination) {
  rte_mbuf* packet = host_.sender.new_packet(ArpMessage::kSize);
  if (packet == nullptr) return false;
  message.emit(std::span<std::uint8_t, ArpMessage::kSize>(rte_pktmbuf_mtod(packet, std::uint8_t*),
                                                          ArpMessage::kSize));
  return host_.sender.send(packet, destination, RTE_ETHER_TYPE_ARP);
}

bool NeighbourSender::send_message(const NeighbourMessage& message, const IpAddress& source,
                                   const IpAddress& destination, const rte_ether_addr& mac) {
  std::array<std::uint8_t, NeighbourMessage::kSizeMax> bytes;
  const std::size_t length = message.emit(bytes);
  IpHeader ip;
  ip.source = source;
  ip.destination = destination;
  ip.protocol = IPPROTO_ICMPV6;
  ip.hop_limit = kNeighbourHopLimit;
  return host_.sender.send_message(std::span(bytes).first(length), ip, mac);
}

}  // namespace rockhopper::stack
