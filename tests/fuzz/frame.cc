// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/fuzz/frame.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <rte_ip.h>
#include <rte_udp.h>

#include "roce/wire/packet.h"
#include "stack/mbuf_pool.h"
#include "stack/roce_locator.h"
#include "tests/fuzz/eal.h"

namespace rockhopper::fuzz {
namespace {

using test::Bytes;

constexpr std::size_t kSegmentMax = 700;
constexpr std::size_t kHead = sizeof(rte_ether_hdr) + sizeof(rte_ipv4_hdr) + sizeof(rte_udp_hdr);

void append(Bytes& to, const void* from, std::size_t length) {
  const auto* bytes = static_cast<const std::uint8_t*>(from);
  to.insert(to.end(), bytes, bytes + length);
}

}  // namespace

rte_mempool* frame_pool() {
  static const auto* const instance = [] {
    ensure_eal();
    auto pool = stack::MbufPool::create({.name = {}, .size = 4095, .cache = 0, .data_room = 1024});
    check(pool.has_value());
    return new stack::MbufPool(std::move(*pool));
  }();
  return instance->get();
}

Bytes make_frame(std::span<const std::uint8_t> transport) {
  Bytes frame;
  rte_ether_hdr ethernet{};
  ethernet.dst_addr = kOwnMac;
  ethernet.src_addr = kPeerMac;
  ethernet.ether_type = RTE_BE16(RTE_ETHER_TYPE_IPV4);
  append(frame, &ethernet, sizeof ethernet);
  const std::size_t udp_length = sizeof(rte_udp_hdr) + transport.size() + wire::Icrc::kSize;
  rte_ipv4_hdr ip{};
  ip.version_ihl = RTE_IPV4_VHL_DEF;
  ip.total_length = rte_cpu_to_be_16(static_cast<std::uint16_t>(sizeof ip + udp_length));
  ip.time_to_live = 64;
  ip.next_proto_id = IPPROTO_UDP;
  ip.src_addr = rte_cpu_to_be_32(kPeerIpv4);
  ip.dst_addr = rte_cpu_to_be_32(kOwnIpv4);
  ip.hdr_checksum = rte_ipv4_cksum(&ip);
  append(frame, &ip, sizeof ip);
  rte_udp_hdr udp{};
  udp.src_port = rte_cpu_to_be_16(0xc000);
  udp.dst_port = rte_cpu_to_be_16(stack::kRoceUdpPort);
  udp.dgram_len = rte_cpu_to_be_16(static_cast<std::uint16_t>(udp_length));
  append(frame, &udp, sizeof udp);
  append(frame, transport.data(), transport.size());
  wire::Icrc icrc;
  const auto covered = std::span(frame).subspan(sizeof ethernet);
  const std::size_t head = std::min(covered.size(), sizeof ip + sizeof udp + wire::Bth::kSize);
  icrc.add_ip_udp_bth(covered.first(head));
  icrc.add(covered.subspan(head));
  std::array<std::uint8_t, wire::Icrc::kSize> trailer;
  wire::store_icrc(icrc.value(), trailer);
  append(frame, trailer.data(), trailer.size());
  return frame;
}

rte_mbuf* make_packet(const Bytes& frame, std::size_t first) {
  rte_mbuf* packet = nullptr;
  for (std::size_t at = 0; at < frame.size();) {
    const std::size_t most = at == 0 ? std::min(first, kSegmentMax) : kSegmentMax;
    const std::size_t piece = std::min(most, frame.size() - at);
    rte_mbuf* part = rte_pktmbuf_alloc(frame_pool());
    check(part != nullptr);
    std::memcpy(rte_pktmbuf_append(part, static_cast<std::uint16_t>(piece)), frame.data() + at,
                piece);
    check(packet == nullptr || rte_pktmbuf_chain(packet, part) == 0);
    packet = packet == nullptr ? part : packet;
    at += piece;
  }
  return packet;
}

Bytes take_packet(rte_mbuf* packet) {
  Bytes frame(packet->pkt_len);
  const void* whole = rte_pktmbuf_read(packet, 0, packet->pkt_len, frame.data());
  if (whole != frame.data()) std::memcpy(frame.data(), whole, frame.size());
  rte_pktmbuf_free(packet);
  return frame;
}

std::span<const std::uint8_t> transport_of(const Bytes& frame) {
  if (frame.size() < kHead || wire::load_be16(&frame[12]) != RTE_ETHER_TYPE_IPV4) return {};
  return std::span(frame).subspan(kHead);
}

}  // namespace rockhopper::fuzz
