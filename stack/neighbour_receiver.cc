// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/neighbour_receiver.h"

#include "stack/arp.h"
#include "stack/neighbour_discovery.h"

namespace rockhopper::stack {
namespace {

/// Neighbour messages longer than any that we could use are not read.
constexpr std::uint16_t kNeighbourMessageMax = 1280;

}  // namespace

HostDrop NeighbourReceiver::receive_arp(const HostFrame& frame, std::uint64_t now_ns) {
  const AddressTable& addresses = host_.addresses;
  ArpMessage message;
  const HostDrop reason = ArpMessage::parse(frame.l3_bytes(), message);
  if (reason != HostDrop::none) return reason;
  if (rte_is_same_ether_addr(&message.sender_mac, &host_.config.mac) != 0) {
    return HostDrop::ethernet_own_source;
  }
  // RFC 5227, section 1.1: a probe has no sender's address and teaches none.
  const bool is_probe = message.sender_ip.is_unspecified();
  // RFC 5227, section 2.1.1: somebody has the address, or would like to have it too.
  if (conflicts_.on_claim(is_probe ? message.target_ip : message.sender_ip)) {
    return HostDrop::duplicate_address;
  }
  if (addresses.owns(message.sender_ip)) {
    conflicts_.defend(message.sender_ip, now_ns);
    return HostDrop::duplicate_address;
  }
  const bool to_us = addresses.owns(message.target_ip);
  if (!is_probe && addresses.on_link(message.sender_ip) && !message.sender_ip.is_multicast()) {
    if (message.is_request) {
      neighbours_.learn(message.sender_ip, message.sender_mac, to_us, now_ns);
    } else {
      neighbours_.advertise(message.sender_ip, message.sender_mac, to_us, true, now_ns);
    }
  }
  if (!to_us) return HostDrop::arp_not_ours;
  if (message.is_request && !host_.config.silent) sender_.reply(message);
  return HostDrop::none;
}

HostDrop NeighbourReceiver::receive_message(const HostFrame& frame, std::uint64_t now_ns) {
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
  if ((!message.is_solicitation || from_nowhere) && conflicts_.on_claim(message.target)) {
    return HostDrop::duplicate_address;
  }
  if (!message.is_solicitation) return on_advertisement(message, now_ns);
  if (!host_.addresses.owns(message.target)) return HostDrop::nd_not_ours;
  if (!from_nowhere && message.link_address) {
    neighbours_.learn(ip.source, *message.link_address, host_.addresses.on_link(ip.source), now_ns);
  }
  if (!host_.config.silent) {
    sender_.advertise(message.target, ip.source,
                      message.link_address.value_or(frame.ethernet.source));
  }
  return HostDrop::none;
}

HostDrop NeighbourReceiver::on_advertisement(const NeighbourMessage& message,
                                             std::uint64_t now_ns) {
  if (host_.addresses.owns(message.target)) {
    conflicts_.defend(message.target, now_ns);
    return HostDrop::duplicate_address;
  }
  neighbours_.advertise(message.target, message.link_address, message.solicited,
                        message.override_mac, now_ns);
  return HostDrop::none;
}

}  // namespace rockhopper::stack
