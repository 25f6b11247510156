// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/sim/selective_drop.h"

#include <optional>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "roce/wire/packet.h"
#include "stack/net/traffic_class.h"

namespace rockhopper::sim {
namespace {

/// The BTH opcode of an untagged RoCEv2 frame whose headers lie in the first segment.
std::optional<std::uint8_t> roce_opcode(const rte_mbuf* packet) {
  const auto* frame = rte_pktmbuf_mtod(packet, const std::uint8_t*);
  const auto* ethernet = reinterpret_cast<const rte_ether_hdr*>(frame);
  std::size_t offset = sizeof(rte_ether_hdr);
  if (ethernet->ether_type == RTE_BE16(RTE_ETHER_TYPE_IPV4)) {
    offset += sizeof(rte_ipv4_hdr);
  } else if (ethernet->ether_type == RTE_BE16(RTE_ETHER_TYPE_IPV6)) {
    offset += sizeof(rte_ipv6_hdr);
  } else {
    return std::nullopt;
  }
  if (rte_pktmbuf_data_len(packet) < offset + sizeof(rte_udp_hdr) + wire::Bth::kSize) {
    return std::nullopt;
  }
  const auto* udp = reinterpret_cast<const rte_udp_hdr*>(frame + offset);
  if (udp->dst_port != RTE_BE16(wire::kRoceUdpPort)) {
    return std::nullopt;
  }
  return frame[offset + sizeof(rte_udp_hdr)];
}

}  // namespace

std::uint16_t SelectiveDrop::tx_burst(rte_mbuf** packets, std::uint16_t count,
                                      std::uint64_t now_ns) {
  // One at a time: what the inner link refuses stays the caller's, and keeps its place.
  for (std::uint16_t i = 0; i < count; ++i) {
    const std::optional<std::uint8_t> opcode = roce_opcode(packets[i]);
    const bool lost = cut_ || offered_ >= cut_from_ ||
                      (opcode && (numbers_.contains(offered_) ||
                                  (opcodes_.contains(*opcode) && rng_.chance(percent_))));
    if (marked_percent_ > 0 && rng_.chance(marked_percent_)) {
      static_cast<void>(stack::net::mark_congestion_experienced(packets[i]));
    }
    if (lost) {
      rte_pktmbuf_free(packets[i]);
      ++dropped_;
    } else if (inner_.tx_burst(&packets[i], 1, now_ns) == 0) {
      return i;
    }
    offered_ += opcode ? 1 : 0;
  }
  return count;
}

}  // namespace rockhopper::sim
