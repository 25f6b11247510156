// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/qpn_steering.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <span>

#include <netinet/in.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "roce/wire/bth.h"
#include "roce/wire/bytes.h"
#include "roce/wire/qpn.h"
#include "stack/ethernet.h"
#include "stack/neighbour_discovery.h"
#include "stack/roce_locator.h"
#include "stack/udp_datagram.h"

namespace rockhopper::roce {
namespace {

/// Where the destination QPN stands in the BTH, and its last byte (IBTA vol. 1, 9.2).
constexpr std::size_t kQpnOffset = 5;
constexpr std::uint16_t kQpnLastByte = 7;
constexpr std::uint32_t kBthEndMax = stack::kDatagramHeadersMax + wire::Bth::kSize;

/// Protocol and offset of what follows the IP header; protocol 0: not to be understood.
struct L4 {
  std::uint8_t protocol = 0;
  std::size_t offset = 0;
};

L4 find_l4(std::span<const std::uint8_t> bytes, const stack::EthernetHeader& ethernet) {
  const std::size_t l3 = ethernet.length;
  if (ethernet.ether_type == RTE_ETHER_TYPE_IPV4 && bytes.size() >= l3 + sizeof(rte_ipv4_hdr)) {
    // With options the host drops it.
    if (bytes[l3] != RTE_IPV4_VHL_DEF) return {};
    return {bytes[l3 + offsetof(rte_ipv4_hdr, next_proto_id)], l3 + sizeof(rte_ipv4_hdr)};
  }
  if (ethernet.ether_type == RTE_ETHER_TYPE_IPV6 && bytes.size() >= l3 + sizeof(rte_ipv6_hdr)) {
    return {bytes[l3 + offsetof(rte_ipv6_hdr, proto)], l3 + sizeof(rte_ipv6_hdr)};
  }
  return {};
}

}  // namespace

QpnSteering::QpnSteering(std::uint16_t shards) : mask_(shards - 1u) {
  assert(std::has_single_bit(shards) && shards <= stack::kShardsMax);
}

std::uint16_t QpnSteering::shard_of(const rte_mbuf* packet) const {
  std::array<std::uint8_t, kBthEndMax> copy;
  const std::uint32_t length = std::min(rte_pktmbuf_pkt_len(packet), kBthEndMax);
  const std::span<const std::uint8_t> bytes{
      static_cast<const std::uint8_t*>(rte_pktmbuf_read(packet, 0, length, copy.data())), length};
  stack::EthernetHeader ethernet;
  if (!stack::parse_ethernet(bytes, packet, ethernet)) return 0;
  if (ethernet.ether_type == RTE_ETHER_TYPE_ARP) return kEveryShard;
  // Groups have members on any shard, and each answers for its own (IGMP, MLD).
  if (rte_is_multicast_ether_addr(&ethernet.destination) != 0) return kEveryShard;
  const L4 l4 = find_l4(bytes, ethernet);
  if (l4.protocol == IPPROTO_ICMPV6 && bytes.size() > l4.offset) {
    const std::uint8_t type = bytes[l4.offset];
    return type == stack::kNeighbourSolicitation || type == stack::kNeighbourAdvertisement
               ? kEveryShard
               : 0;
  }
  const std::size_t bth = l4.offset + sizeof(rte_udp_hdr);
  if (l4.protocol != IPPROTO_UDP || bytes.size() < bth + wire::Bth::kSize) return 0;
  rte_be16_t port = 0;
  std::memcpy(&port, &bytes[l4.offset + offsetof(rte_udp_hdr, dst_port)], sizeof port);
  if (port != rte_cpu_to_be_16(stack::kRoceUdpPort)) return 0;
  const std::uint32_t qpn = wire::load_be24(&bytes[bth + kQpnOffset]);
  return qpn <= wire::kGsiQpn.value ? 0 : static_cast<std::uint16_t>(qpn & mask_);
}

std::vector<stack::FlowRule> QpnSteering::rules() const {
  std::vector<stack::FlowRule> rules;
  for (std::uint32_t shard = 0; shard <= mask_; ++shard) {
    rules.push_back({.udp_port = stack::kRoceUdpPort,
                     .payload_offset = kQpnLastByte,
                     .mask = static_cast<std::uint8_t>(mask_),
                     .value = static_cast<std::uint8_t>(shard),
                     .queue = static_cast<std::uint16_t>(shard)});
  }
  return rules;
}

}  // namespace rockhopper::roce
