// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/host.h"

#include <algorithm>

#include <netinet/in.h>
#include <rte_prefetch.h>

#include "stack/checksum_offload.h"
#include "stack/ethernet.h"
#include "stack/interface_address.h"

namespace rockhopper::stack {
namespace {

constexpr std::uint16_t kMtuMin = RTE_IPV6_MIN_MTU;
constexpr std::uint16_t kVlanIdMax = 4094;
/// Room for the longest message that new_packet() is asked for.
constexpr std::uint16_t kDataRoomMin = RTE_PKTMBUF_HEADROOM + 64;
constexpr std::uint8_t kLinkLocalPrefixLength = 64;
constexpr unsigned kPriorityShift = 13;  // of the PCP in a tag
constexpr std::uint8_t kPriorityMax = 7;
constexpr std::uint16_t kRoceV1EtherType = 0x8915;

bool lacks_source(const EthernetHeader& ethernet) {
  return rte_is_zero_ether_addr(&ethernet.source) != 0;
}

}  // namespace

Expected<std::unique_ptr<Host>> Host::create(const HostConfig& config) {
  if (rte_is_valid_assigned_ether_addr(&config.mac) == 0) {
    return fail(ErrorCode::invalid_argument, "the host's MAC is not a station address");
  }
  if (config.packet_pool == nullptr) {
    return fail(ErrorCode::invalid_argument, "the host has no packet pool");
  }
  if (rte_pktmbuf_data_room_size(config.packet_pool) < kDataRoomMin) {
    return fail(ErrorCode::invalid_argument, "the packet pool's data room is below {} bytes",
                kDataRoomMin);
  }
  if (config.mtu < kMtuMin) {
    return fail(ErrorCode::invalid_argument, "MTU {} is below {}", config.mtu, kMtuMin);
  }
  if (config.vlan_id && (*config.vlan_id == 0 || *config.vlan_id > kVlanIdMax)) {
    return fail(ErrorCode::invalid_argument, "VLAN id {} is not in 1 to {}", *config.vlan_id,
                kVlanIdMax);
  }
  if (config.neighbour_limit == 0) {
    return fail(ErrorCode::invalid_argument, "the neighbour limit is 0");
  }
  return std::unique_ptr<Host>(new Host(config));
}

Host::Host(const HostConfig& config)
    : context_(config),
      neighbour_sender_(context_),
      neighbours_(config.neighbour_limit, config.seed, context_.timers, neighbour_sender_,
                  context_.counters),
      conflicts_(context_, neighbour_sender_, neighbours_),
      neighbour_receiver_(context_, neighbours_, conflicts_, neighbour_sender_),
      groups_(context_),
      icmp_(context_, neighbour_receiver_, groups_) {}

// Addresses.

Expected<void> Host::add_address(const IpAddress& address, std::uint8_t prefix_length,
                                 AddressUse use) {
  const IpAddress link_local = link_local_address(context_.config.mac);
  const bool brings_link_local = !context_.config.socket && !address.is_ipv4() &&
                                 !context_.addresses.has_ipv6() && address != link_local;
  ROCKHOPPER_TRY(add_one_address(address, prefix_length));
  if (brings_link_local) {
    if (auto added = add_one_address(link_local, kLinkLocalPrefixLength); !added) {
      (void)remove_address(address);
      return added;
    }
  }
  conflicts_.begin(address, use);
  if (brings_link_local) conflicts_.begin(link_local, use);
  return {};
}

Expected<void> Host::add_one_address(const IpAddress& address, std::uint8_t prefix_length) {
  ROCKHOPPER_TRY(context_.addresses.add(address, prefix_length));
  // RFC 4861, section 7.2.1, and for probing RFC 4862, section 5.4.2; the host that answers tells
  // of it.
  if (!address.is_ipv4() && !context_.config.silent) {
    if (auto joined = join(solicited_node_group(address)); !joined) {
      (void)context_.addresses.remove(address);
      return joined;
    }
  }
  return {};
}

Expected<void> Host::remove_address(const IpAddress& address) {
  const bool used = owns(address);
  ROCKHOPPER_TRY(context_.addresses.remove(address));
  context_.known_headers.forget();
  neighbours_.invalidate();
  if (used && context_.observer != nullptr) context_.observer->on_address_change();
  if (address.is_ipv4() || context_.config.silent) return {};
  return leave(solicited_node_group(address));
}

std::optional<AddressState> Host::address_state(const IpAddress& address) const {
  const AddressTable::Entry* entry = context_.addresses.find(address);
  return entry == nullptr ? std::nullopt : std::optional(entry->state);
}

std::optional<IpAddress> Host::address_at(std::uint16_t index) const {
  const AddressTable::Entry* entry = context_.addresses.at(index);
  return entry == nullptr || !entry->usable() ? std::nullopt : std::optional(entry->address);
}

Expected<void> Host::set_gateway(const IpAddress& gateway) {
  neighbours_.invalidate();
  return context_.addresses.set_gateway(gateway);
}

Expected<void> Host::add_static_neighbour(const IpAddress& address, const rte_ether_addr& mac) {
  if (address.is_unspecified() || address.is_multicast() || owns(address)) {
    return fail(ErrorCode::invalid_argument, "{} cannot be a neighbour", address.to_string());
  }
  if (rte_is_valid_assigned_ether_addr(&mac) == 0) {
    return fail(ErrorCode::invalid_argument, "the MAC of {} is not a station address",
                address.to_string());
  }
  return neighbours_.add_permanent(address, mac);
}

void Host::bind_udp(std::uint16_t port, UdpClient* client) {
  context_.known_headers.forget();
  context_.bindings.bind(port, client);
}

// Sending.

std::uint16_t Host::transmit(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  now_ns_ = now_ns;
  context_.timers.advance(now_ns);
  std::uint16_t taken = 0;
  while (taken < count && !context_.sender.empty()) {
    packets[taken++] = context_.sender.pop();
  }
  const auto room = static_cast<std::uint16_t>(count - taken);
  return static_cast<std::uint16_t>(taken +
                                    context_.bindings.transmit(packets + taken, room, now_ns));
}

std::uint64_t Host::next_deadline_ns() const {
  const std::uint64_t own_ns =
      context_.sender.empty() ? context_.timers.next_deadline_ns() : now_ns_;
  return std::min(own_ns, context_.bindings.next_deadline_ns());
}

Resolution Host::resolve_anew(Flow& flow, std::uint64_t now_ns) {
  now_ns_ = now_ns;
  flow.header_length = 0;
  flow.neighbour_generation = 0;
  rte_ether_addr mac{};
  const Resolution resolution = find_mac(flow.config, now_ns, mac);
  if (resolution != Resolution::ready) return resolution;
  build_header(flow, mac);
  flow.neighbour_generation = neighbours_.generation();
  return Resolution::ready;
}

Resolution Host::find_mac(const FlowConfig& flow, std::uint64_t now_ns, rte_ether_addr& mac) {
  const IpAddress& destination = flow.destination;
  if (flow.source.is_ipv4() != destination.is_ipv4() || destination.is_unspecified()) {
    return Resolution::unreachable;
  }
  if (!owns(flow.source)) return Resolution::unreachable;
  if (destination.is_multicast()) {
    mac = multicast_mac(destination);
    return Resolution::ready;
  }
  if (owns(destination)) {
    mac = context_.config.mac;
    return Resolution::ready;
  }
  if (context_.config.socket) {
    mac = context_.config.socket->mac;
    return Resolution::ready;
  }
  std::optional<IpAddress> next_hop = context_.addresses.next_hop(destination);
  if (!next_hop && neighbours_.state(destination) == NeighbourTable::State::permanent) {
    next_hop = destination;
  }
  if (!next_hop) return Resolution::unreachable;
  return neighbours_.use(*next_hop, now_ns, mac);
}

bool Host::resolve_back(Flow& flow, const rte_ether_addr& station) const {
  if (!owns(flow.config.source)) return false;
  build_header(flow, station);
  flow.neighbour_generation = 0;  // resolve() knows nothing of it
  return true;
}

void Host::build_header(Flow& flow, const rte_ether_addr& mac) const {
  const FlowConfig& config = flow.config;
  std::optional<std::uint16_t> tci;
  if (context_.config.vlan_id || (context_.config.priority_tags && config.priority_tag)) {
    const unsigned priority =
        context_.config.priorities.trust == Trust::dscp
            ? context_.config.priorities.of_traffic_class(config.traffic_class)
            : std::min(config.priority, kPriorityMax);
    tci = static_cast<std::uint16_t>(priority << kPriorityShift |
                                     context_.config.vlan_id.value_or(0));
  }
  const bool ipv4 = config.source.is_ipv4();
  std::uint8_t* out = flow.header.data();
  flow.l3_offset = emit_ethernet(out, mac, context_.config.mac, tci,
                                 ipv4 ? RTE_ETHER_TYPE_IPV4 : RTE_ETHER_TYPE_IPV6);
  IpHeader ip;
  ip.source = config.source;
  ip.destination = config.destination;
  ip.protocol = IPPROTO_UDP;
  ip.traffic_class = config.traffic_class;
  ip.hop_limit = config.hop_limit;
  ip.flow_label = config.flow_label;
  std::uint8_t* l3 = out + flow.l3_offset;
  const std::uint8_t l3_length = emit_ip(ip, l3);
  if (ipv4) {
    // What encapsulate() adds the total length to.
    rte_ipv4_hdr header;
    std::memcpy(&header, l3, sizeof header);
    header.total_length = 0;
    header.hdr_checksum = 0;
    header.hdr_checksum = rte_raw_cksum(&header, sizeof header);
    std::memcpy(l3, &header, sizeof header);
  }
  const std::uint16_t source_port =
      context_.config.socket ? context_.config.socket->source_port : config.source_port;
  const rte_udp_hdr udp{rte_cpu_to_be_16(source_port), rte_cpu_to_be_16(config.destination_port), 0,
                        0};
  std::memcpy(l3 + l3_length, &udp, sizeof udp);
  flow.header_length = static_cast<std::uint8_t>(flow.l3_offset + l3_length + sizeof udp);
  flow.computed = 0;
  flow.omits_icrc = context_.config.omits_icrc && owns(config.destination);
}

// Receiving.

void Host::receive(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  now_ns_ = now_ns;
  context_.counters.add(HostEvent::rx_packets, count);
  context_.bindings.begin_receive({packets, count}, now_ns);
  for (std::uint16_t i = 0; i < count; ++i) {
    if (i + 1 < count) rte_prefetch0(rte_pktmbuf_mtod(packets[i + 1], const void*));
    const KnownHeaders::Match known = context_.known_headers.match(packets[i]);
    if (known.client == nullptr) {
      receive_packet(packets[i], now_ns);
      continue;
    }
    context_.counters.add(HostEvent::rx_udp_datagrams);
    known.client->on_udp(*known.datagram, now_ns);
  }
  context_.bindings.end_receive();
}

void Host::receive_packet(rte_mbuf* packet, std::uint64_t now_ns) {
  std::uint8_t copy[HostFrame::kHeaderMax];
  const std::uint32_t length = std::min(rte_pktmbuf_pkt_len(packet), HostFrame::kHeaderMax);
  const auto* bytes = static_cast<const std::uint8_t*>(rte_pktmbuf_read(packet, 0, length, copy));
  HostFrame frame{packet, {bytes, length}};
  const HostDrop reason = receive_ethernet(frame, now_ns);
  if (reason != HostDrop::none) {
    context_.counters.add(reason);
    if (context_.config.drop_observer != nullptr) {
      context_.config.drop_observer->on_drop(packet, to_string(reason));
    }
  }
  rte_pktmbuf_free(frame.packet);
}

HostDrop Host::receive_ethernet(HostFrame& frame, std::uint64_t now_ns) {
  if (!parse_ethernet(frame.headers, frame.packet, frame.ethernet)) {
    return HostDrop::ethernet_truncated;
  }
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
      if (lacks_source(frame.ethernet)) return HostDrop::ethernet_bad_source;
      return neighbour_receiver_.receive_arp(frame, now_ns);
    case kRoceV1EtherType:
      return HostDrop::roce_v1;
    default:
      return reason;
  }
}

HostDrop Host::check_stations(const HostFrame& frame) const {
  const EthernetHeader& ethernet = frame.ethernet;
  if (rte_is_multicast_ether_addr(&ethernet.source) != 0) return HostDrop::ethernet_bad_source;
  const bool to_us = rte_is_same_ether_addr(&ethernet.destination, &context_.config.mac) != 0;
  // receive_ip() looks at what is to us.
  if (!to_us && lacks_source(ethernet)) return HostDrop::ethernet_bad_source;
  // Group addresses are told apart by their IP address or ARP message.
  if (!to_us && rte_is_unicast_ether_addr(&ethernet.destination) != 0) {
    return HostDrop::ethernet_not_ours;
  }
  if (!to_us && !context_.config.shared_mac &&
      rte_is_same_ether_addr(&ethernet.source, &context_.config.mac) != 0) {
    return HostDrop::ethernet_own_source;
  }
  // A tag with VLAN id 0 gives a priority only (IEEE 802.1Q, section 9.6).
  const std::uint16_t vlan_id = ethernet.tagged ? ethernet.vlan_tci & kVlanIdMask : 0;
  if (vlan_id != context_.config.vlan_id.value_or(0)) return HostDrop::ethernet_wrong_vlan;
  return HostDrop::none;
}

HostDrop Host::receive_ip(HostFrame& frame, std::uint64_t now_ns) {
  // Linux 6.18 sends MADs from RNICs of AMD Pensando so. A UDP datagram is answered to where its
  // IP address is resolved to; all else would be answered to this address, or learn it.
  if (lacks_source(frame.ethernet) && frame.ip.protocol != IPPROTO_UDP) {
    return HostDrop::ethernet_bad_source;
  }
  const bool ipv4 = frame.ip.source.is_ipv4();
  const HostDrop reason = check_addresses(frame);
  if (reason == HostDrop::ip_own_source && !ipv4 && frame.ip.hop_limit == kNeighbourHopLimit) {
    // It has crossed no router: a station of this link uses our address.
    conflicts_.defend(frame.ip.source, now_ns);
    return HostDrop::duplicate_address;
  }
  if (reason != HostDrop::none) return reason;
  if (frame.ip.protocol == IPPROTO_UDP) return receive_udp(frame, now_ns);
  if (ipv4 && frame.ip.protocol == IPPROTO_ICMP) return icmp_.receive_icmp(frame, now_ns);
  if (!ipv4 && frame.ip.protocol == IPPROTO_ICMPV6) return icmp_.receive_icmpv6(frame, now_ns);
  if (ipv4 && frame.ip.protocol == IPPROTO_IGMP) return groups_.receive_igmp(frame, now_ns);
  return HostDrop::ip_unknown_protocol;
}

HostDrop Host::check_addresses(const HostFrame& frame) const {
  const IpHeader& ip = frame.ip;
  const bool is_icmpv6 = !ip.destination.is_ipv4() && ip.protocol == IPPROTO_ICMPV6;
  // Duplicate address detection asks from the unspecified address (RFC 4862, section 5.4.2), and
  // switches without an address ask so for members (RFC 4541, section 2.1.1).
  const bool asks_unspecified =
      (is_icmpv6 || ip.protocol == IPPROTO_IGMP) && ip.source.is_unspecified();
  if (!context_.addresses.is_of_station(ip.source) && !asks_unspecified) {
    return HostDrop::ip_bad_source;
  }
  const bool from_us = rte_is_same_ether_addr(&frame.ethernet.source, &context_.config.mac) != 0;
  if (!from_us && owns(ip.source)) return HostDrop::ip_own_source;
  if (owns(ip.destination)) {
    // RFC 1122, section 3.3.6: no unicast packet comes in a broadcast frame.
    return rte_is_unicast_ether_addr(&frame.ethernet.destination) != 0 ? HostDrop::none
                                                                       : HostDrop::ip_not_ours;
  }
  if (!ip.destination.is_multicast()) return HostDrop::ip_not_ours;
  return groups_.takes(ip) ? HostDrop::none : HostDrop::ip_group_not_joined;
}

HostDrop Host::receive_udp(HostFrame& frame, std::uint64_t now_ns) {
  const IpHeader& ip = frame.ip;
  rte_udp_hdr udp;
  if (ip.payload_length < sizeof udp) return HostDrop::udp_truncated;
  std::memcpy(&udp, frame.headers.data() + frame.l4_offset(), sizeof udp);
  const std::uint16_t length = rte_be_to_cpu_16(udp.dgram_len);
  if (length < sizeof udp || length > ip.payload_length) return HostDrop::udp_bad_length;
  const std::uint16_t port = rte_be_to_cpu_16(udp.dst_port);
  UdpClient* client = context_.bindings.find(port);
  if (client == nullptr) return HostDrop::udp_no_listener;
  // RoCEv2 sends 0, its ICRC covers the addresses: the case that RFC 6936 allows over IPv6 too.
  if (udp.dgram_cksum != 0 && !l4_checksum_verified(frame.packet)) {
    const std::uint16_t sum =
        add_checksums(pseudo_header_checksum(ip.source, ip.destination, ip.protocol, length),
                      raw_checksum(frame.packet, frame.l4_offset(), length));
    if (sum != 0xffff) return HostDrop::udp_bad_checksum;
  }
  context_.counters.add(HostEvent::rx_udp_datagrams);
  UdpDatagram datagram{
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
  if (udp.dgram_cksum == 0) datagram.known = context_.known_headers.remember(datagram, client);
  frame.packet = nullptr;
  client->on_udp(datagram, now_ns);
  return HostDrop::none;
}

}  // namespace rockhopper::stack
