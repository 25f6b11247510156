// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/host.h"

#include <algorithm>
#include <cassert>

#include <netinet/in.h>

#include "stack/ethernet.h"

namespace rockhopper::stack {
namespace {

constexpr std::uint64_t kTick_ns = 1 << 20;  // about a millisecond
constexpr std::uint64_t kEchoReplyInterval_ns = 1'000'000;
constexpr std::uint64_t kEchoReplyBurst = 64;
constexpr std::uint64_t kTooBigInterval_ns = 1'000'000'000;  // anybody can cause events
constexpr std::uint16_t kMtuMin = RTE_IPV6_MIN_MTU;
constexpr std::uint16_t kVlanIdMax = 4094;
/// Room for the longest message that new_packet() is asked for.
constexpr std::uint16_t kDataRoomMin = RTE_PKTMBUF_HEADROOM + 64;
/// So that what is random in one part says nothing of the others.
constexpr std::uint64_t kIpv4Stream = 0x4d04;
constexpr std::uint64_t kIpv6Stream = 0x4d06;
constexpr std::uint64_t kProbeStream = 0x4d07;
constexpr unsigned kPriorityShift = 13;  // of the PCP in a tag
constexpr std::uint8_t kPriorityMax = 7;

}  // namespace

Expected<std::unique_ptr<Host>> Host::create(const HostConfig& config) {
  if (rte_is_valid_assigned_ether_addr(&config.mac) == 0)
    return fail(ErrorCode::invalid_argument, "the host's MAC is not a station address");
  if (config.packet_pool == nullptr)
    return fail(ErrorCode::invalid_argument, "the host has no packet pool");
  if (rte_pktmbuf_data_room_size(config.packet_pool) < kDataRoomMin)
    return fail(ErrorCode::invalid_argument, "the packet pool's data room is below {} bytes",
                kDataRoomMin);
  if (config.mtu < kMtuMin)
    return fail(ErrorCode::invalid_argument, "MTU {} is below {}", config.mtu, kMtuMin);
  if (config.vlan_id && (*config.vlan_id == 0 || *config.vlan_id > kVlanIdMax))
    return fail(ErrorCode::invalid_argument, "VLAN id {} is not in 1 to {}", *config.vlan_id,
                kVlanIdMax);
  if (config.neighbour_limit == 0)
    return fail(ErrorCode::invalid_argument, "the neighbour limit is 0");
  return std::unique_ptr<Host>(new Host(config));
}

Host::Host(const HostConfig& config)
    : config_(config),
      timers_(kTick_ns),
      neighbours_(config.neighbour_limit, config.seed, timers_, *this, counters_),
      ipv4_groups_(config.seed ^ kIpv4Stream, timers_, *this),
      ipv6_groups_(config.seed ^ kIpv6Stream, timers_, *this),
      announce_timer_(
          [](void* context, std::uint64_t now_ns) {
            static_cast<Host*>(context)->announce_due(now_ns);
          },
          this),
      probe_timer_([](void* context,
                      std::uint64_t now_ns) { static_cast<Host*>(context)->probe_due(now_ns); },
                   this),
      probe_jitter_(config.seed ^ kProbeStream),
      echo_replies_(kEchoReplyInterval_ns, kEchoReplyBurst),
      too_big_(kTooBigInterval_ns, 1) {}

Host::~Host() = default;

Expected<void> Host::add_static_neighbour(const IpAddress& address, const rte_ether_addr& mac) {
  if (address.is_unspecified() || address.is_multicast() || owns(address))
    return fail(ErrorCode::invalid_argument, "{} cannot be a neighbour", address.to_string());
  if (rte_is_valid_assigned_ether_addr(&mac) == 0)
    return fail(ErrorCode::invalid_argument, "the MAC of {} is not a station address",
                address.to_string());
  return neighbours_.add_permanent(address, mac);
}

void Host::bind_udp(std::uint16_t port, UdpClient* client) {
  known_headers_.forget();
  std::erase_if(udp_bindings_, [&](const UdpBinding& binding) { return binding.port == port; });
  if (client != nullptr) udp_bindings_.push_back({port, client});
}

std::uint16_t Host::transmit(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  now_ns_ = now_ns;
  timers_.advance(now_ns);
  std::uint16_t taken = 0;
  while (taken < count && !output_.empty()) packets[taken++] = output_.pop();
  for (const UdpBinding& binding : udp_bindings_) {
    const auto room = static_cast<std::uint16_t>(count - taken);
    const std::uint16_t more = binding.client->transmit(packets + taken, room, now_ns);
    assert(more <= room);
    taken = static_cast<std::uint16_t>(taken + more);
  }
  return taken;
}

std::uint64_t Host::next_deadline_ns() const {
  std::uint64_t next_ns = output_.empty() ? timers_.next_deadline_ns() : now_ns_;
  for (const UdpBinding& binding : udp_bindings_) {
    next_ns = std::min(next_ns, binding.client->next_deadline_ns());
  }
  return next_ns;
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
  if (flow.source.is_ipv4() != destination.is_ipv4() || destination.is_unspecified())
    return Resolution::unreachable;
  if (!owns(flow.source)) return Resolution::unreachable;
  if (destination.is_multicast()) {
    mac = multicast_mac(destination);
    return Resolution::ready;
  }
  if (owns(destination)) {
    mac = config_.mac;
    return Resolution::ready;
  }
  std::optional<IpAddress> next_hop = addresses_.next_hop(destination);
  if (!next_hop && neighbours_.state(destination) == NeighbourTable::State::permanent)
    next_hop = destination;
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
  if (config_.vlan_id || config_.priority_tags) {
    const unsigned priority = config_.priorities.trust == Trust::dscp
                                  ? config_.priorities.of_traffic_class(config.traffic_class)
                                  : std::min(config.priority, kPriorityMax);
    tci = static_cast<std::uint16_t>(priority << kPriorityShift | config_.vlan_id.value_or(0));
  }
  const bool ipv4 = config.source.is_ipv4();
  std::uint8_t* out = flow.header.data();
  flow.l3_offset =
      emit_ethernet(out, mac, config_.mac, tci, ipv4 ? RTE_ETHER_TYPE_IPV4 : RTE_ETHER_TYPE_IPV6);
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
  const rte_udp_hdr udp{rte_cpu_to_be_16(config.source_port),
                        rte_cpu_to_be_16(config.destination_port), 0, 0};
  std::memcpy(l3 + l3_length, &udp, sizeof udp);
  flow.header_length = static_cast<std::uint8_t>(flow.l3_offset + l3_length + sizeof udp);
}

rte_mbuf* Host::new_packet(std::uint16_t length) {
  rte_mbuf* packet = rte_pktmbuf_alloc(config_.packet_pool);
  if (packet != nullptr && rte_pktmbuf_append(packet, length) != nullptr) return packet;
  rte_pktmbuf_free(packet);
  counters_.add(HostEvent::tx_no_buffer);
  return nullptr;
}

bool Host::send(rte_mbuf* packet, const rte_ether_addr& destination, std::uint16_t ether_type) {
  std::uint8_t header[sizeof(rte_ether_hdr) + sizeof(rte_vlan_hdr)];
  const std::uint8_t length =
      emit_ethernet(header, destination, config_.mac, config_.vlan_id, ether_type);
  char* front = rte_pktmbuf_prepend(packet, length);
  if (front == nullptr) {
    counters_.add(HostEvent::tx_no_buffer);
    rte_pktmbuf_free(packet);
    return false;
  }
  std::memcpy(front, header, length);
  if (output_.push(packet)) return true;
  counters_.add(HostEvent::tx_queue_full);
  rte_pktmbuf_free(packet);
  return false;
}

bool Host::send_ip(rte_mbuf* payload, IpHeader header, const rte_ether_addr& destination) {
  header.payload_length = static_cast<std::uint16_t>(rte_pktmbuf_pkt_len(payload));
  std::uint8_t bytes[kIpHeaderMax];
  const std::uint8_t length = emit_ip(header, bytes);
  char* front = rte_pktmbuf_prepend(payload, length);
  if (front == nullptr) {
    counters_.add(HostEvent::tx_no_buffer);
    rte_pktmbuf_free(payload);
    return false;
  }
  std::memcpy(front, bytes, length);
  return send(payload, destination,
              header.source.is_ipv4() ? RTE_ETHER_TYPE_IPV4 : RTE_ETHER_TYPE_IPV6);
}

}  // namespace rockhopper::stack
