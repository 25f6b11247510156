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
constexpr std::uint64_t kAnnounceInterval_ns = 2'000'000'000;  // RFC 5227, section 1.1
constexpr std::uint8_t kAnnouncements = 2;                     // RFC 5227, section 1.1
constexpr std::uint64_t kProbeInterval_ns = 1'000'000'000;  // RFC 5227, 1.1; RFC 4861, section 10
constexpr std::size_t kIcmpChecksumOffset = 2;
/// Neighbour messages longer than any that we could use are not read.
constexpr std::uint16_t kNeighbourMessageMax = 1280;

}  // namespace

HostDrop Host::receive_arp(const Frame& frame, std::uint64_t now_ns) {
  ArpMessage message;
  const HostDrop reason = ArpMessage::parse(frame.l3_bytes(), message);
  if (reason != HostDrop::none) return reason;
  // RFC 5227, section 2.1.1: somebody has the address, or would like to have it too.
  const bool probes = message.sender_ip.is_unspecified();
  if (rte_is_same_ether_addr(&message.sender_mac, &config_.mac) == 0 &&
      refutes(probes ? message.target_ip : message.sender_ip)) {
    return HostDrop::duplicate_address;
  }
  if (owns(message.sender_ip)) {
    defend(message.sender_ip, now_ns);
    return HostDrop::duplicate_address;
  }
  const bool to_us = owns(message.target_ip);
  // RFC 5227, section 1.1: a probe has no sender's address and teaches none.
  const bool is_probe = message.sender_ip.is_unspecified();
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
  // RFC 4862, section 5.4.3 and 5.4.4: the same.
  if ((!message.is_solicitation || from_nowhere) && refutes(message.target))
    return HostDrop::duplicate_address;
  if (!message.is_solicitation) {
    if (owns(message.target)) {
      if (observer_ != nullptr && defences_.take(now_ns))
        observer_->on_duplicate_address(message.target);
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

void Host::announce_due(std::uint64_t now_ns) {
  bool more = false;
  for (AddressTable::Entry& entry : addresses_.entries()) {
    if (entry.announcements == 0) continue;
    --entry.announcements;
    announce(entry.address);
    more = more || entry.announcements > 0;
  }
  if (more) timers_.arm(announce_timer_, now_ns + kAnnounceInterval_ns);
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

/// RFC 5227, section 2.4 (b): keeps the address, but does not let two stations quarrel for ever.
void Host::defend(const IpAddress& address, std::uint64_t now_ns) {
  if (!defences_.take(now_ns)) return;
  announce(address);
  if (observer_ != nullptr) observer_->on_duplicate_address(address);
}

void Host::start_using(AddressTable::Entry& entry) {
  entry.state = AddressState::preferred;
  entry.announcements = kAnnouncements;
  known_headers_.forget();
  neighbours_.invalidate();
  timers_.arm(announce_timer_, 0);
  if (observer_ != nullptr) observer_->on_address_change();
}

bool Host::refutes(const IpAddress& address) {
#if ROCKHOPPER_MUTATION_DUPLICATE_DETECTION
  return static_cast<void>(address), false;
#else
  AddressTable::Entry* entry = addresses_.find(address);
  if (entry == nullptr || entry->usable()) return false;
  if (entry->state == AddressState::tentative) {
    entry->state = AddressState::duplicate;
    if (observer_ != nullptr) observer_->on_duplicate_address(address);
  }
  return true;
#endif
}

/// Asks whether somebody has it, without saying that we would like to (RFC 5227, section 2.1.1;
/// RFC 4862, section 5.4.2).
void Host::probe(const IpAddress& address) {
  bool sent = false;
  if (address.is_ipv4()) {
    sent = send_arp({true, config_.mac, IpAddress::from_ipv4(0), {}, address}, kBroadcastMac);
  } else {
    NeighbourMessage message;
    message.is_solicitation = true;
    message.target = address;
    const IpAddress group = solicited_node_group(address);
    sent = send_neighbour_message(message, {}, group, multicast_mac(group));
  }
  if (sent) counters_.add(HostEvent::address_probes_sent);
}

void Host::probe_due(std::uint64_t now_ns) {
  std::uint64_t next_ns = kNever;
  for (AddressTable::Entry& entry : addresses_.entries()) {
    if (entry.state != AddressState::tentative) continue;
    if (now_ns >= entry.next_probe_ns) {
      if (entry.probes == 0) {
        start_using(entry);
        continue;
      }
      probe(entry.address);
      const bool last = --entry.probes == 0;
      // IPv4: PROBE_MIN to PROBE_MAX, then ANNOUNCE_WAIT. IPv6: RetransTimer.
      entry.next_probe_ns = now_ns + kProbeInterval_ns;
      if (entry.address.is_ipv4()) {
        entry.next_probe_ns += last ? kProbeInterval_ns : probe_jitter_.below(kProbeInterval_ns);
      }
    }
    next_ns = std::min(next_ns, entry.next_probe_ns);
  }
  if (next_ns != kNever) timers_.arm(probe_timer_, next_ns);
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
