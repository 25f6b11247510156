// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/known_headers.h"

#include <array>
#include <cassert>
#include <cstddef>
#include <cstring>

#include <rte_byteorder.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "stack/byte_order.h"
#include "stack/checksum_offload.h"

namespace rockhopper::stack {
namespace {

/// Ethernet, IPv4, UDP.
constexpr std::size_t kLengthMin = 14 + 20 + 8;

/// The checksum of an IPv4 header without options is right. The sum is that of 32-bit words, whose
/// halves are added at the end.
bool ipv4_checksum_right(const std::uint8_t* l3) {
  std::array<std::uint32_t, sizeof(rte_ipv4_hdr) / sizeof(std::uint32_t)> words;
  std::memcpy(words.data(), l3, sizeof words);
  std::uint64_t sum = 0;
  for (const std::uint32_t word : words) {
    sum += word;
  }
  sum = (sum & 0xffffffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return ((sum & 0xffff) + (sum >> 16)) == 0xffff;
}

/// The lengths of IP and UDP fit each other and the packet, and the IPv4 checksum is right: as the
/// checks in full demand, for headers of these lengths.
bool lengths_fit(const rte_mbuf* packet, const std::uint8_t* l3, std::uint32_t l3_length,
                 std::uint32_t frame_length, std::uint16_t udp_length) {
  if (udp_length < sizeof(rte_udp_hdr)) return false;
  if (l3_length == sizeof(rte_ipv6_hdr)) {
    const std::uint32_t payload = load_be16(l3 + offsetof(rte_ipv6_hdr, payload_len));
    return payload <= frame_length - l3_length && udp_length <= payload;
  }
  const std::uint32_t total = load_be16(l3 + offsetof(rte_ipv4_hdr, total_length));
  return total <= frame_length && l3_length + udp_length <= total &&
         (ip_checksum_verified(packet) || ipv4_checksum_right(l3));
}

}  // namespace

UdpClient* KnownHeaders::match(rte_mbuf* packet, UdpDatagram& datagram) const {
  const auto* frame = rte_pktmbuf_mtod(packet, const std::uint8_t*);
  if (packet->data_len < kLengthMin) return nullptr;
  const Entry& entry = entries_[station_of(frame)];
  const std::size_t length = entry.length;
  if (length == 0 || packet->data_len < length ||
      (packet->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) != 0) {
    return nullptr;
  }
  // The last block ends with the headers, and overlaps the one before.
  const Block* block = entry.blocks.data();
  Bytes difference = (load(frame + length - kBlockBytes) & block->mask) ^ block->value;
  for (std::size_t at = 0; at + kBlockBytes < length; at += kBlockBytes) {
    ++block;
    difference |= (load(frame + at) & block->mask) ^ block->value;
  }
  if ((difference[0] | difference[1]) != 0) return nullptr;

  const std::uint8_t* l3 = frame + entry.datagram.l3_offset;
  const std::uint8_t* udp = frame + length - sizeof(rte_udp_hdr);
  const std::uint16_t udp_length = load_be16(udp + offsetof(rte_udp_hdr, dgram_len));
  const auto l3_length = static_cast<std::uint32_t>(udp - l3);
  if (!lengths_fit(packet, l3, l3_length, packet->pkt_len - entry.datagram.l3_offset, udp_length)) {
    return nullptr;
  }
  datagram = entry.datagram;
  datagram.packet = packet;
  datagram.source_port = load_be16(udp + offsetof(rte_udp_hdr, src_port));
  datagram.payload_length = static_cast<std::uint16_t>(udp_length - sizeof(rte_udp_hdr));
  if (l3_length == sizeof(rte_ipv4_hdr)) {
    datagram.traffic_class = l3[offsetof(rte_ipv4_hdr, type_of_service)];
    datagram.hop_limit = l3[offsetof(rte_ipv4_hdr, time_to_live)];
  } else {
    datagram.traffic_class = static_cast<std::uint8_t>(load_be16(l3) >> 4);
    datagram.hop_limit = l3[offsetof(rte_ipv6_hdr, hop_limits)];
  }
  return entry.client;
}

void KnownHeaders::remember(const UdpDatagram& datagram, UdpClient* client) {
  const rte_mbuf* packet = datagram.packet;
  const std::size_t length = datagram.payload_offset;
  if (packet->data_len < length || (packet->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) != 0) return;
  assert(length >= kLengthMin && length <= kLengthMax);
  const auto* frame = rte_pktmbuf_mtod(packet, const std::uint8_t*);
  std::array<std::uint8_t, kLengthMax> mask;
  mask.fill(0xff);
  const auto ignore = [&mask](std::size_t offset, std::size_t size) {
    std::memset(&mask[offset], 0, size);
  };
  const std::size_t l3 = datagram.l3_offset;
  const std::size_t udp = length - sizeof(rte_udp_hdr);
  if (udp - l3 == sizeof(rte_ipv4_hdr)) {
    ignore(l3 + offsetof(rte_ipv4_hdr, type_of_service), 1);
    ignore(l3 + offsetof(rte_ipv4_hdr, total_length), 2);
    ignore(l3 + offsetof(rte_ipv4_hdr, packet_id), 2);
    ignore(l3 + offsetof(rte_ipv4_hdr, time_to_live), 1);
    ignore(l3 + offsetof(rte_ipv4_hdr, hdr_checksum), 2);
  } else {
    mask[l3] = 0xf0;  // the version, then class and flow label
    ignore(l3 + 1, 3);
    ignore(l3 + offsetof(rte_ipv6_hdr, payload_len), 2);
    ignore(l3 + offsetof(rte_ipv6_hdr, hop_limits), 1);
  }
  ignore(udp + offsetof(rte_udp_hdr, src_port), 2);
  ignore(udp + offsetof(rte_udp_hdr, dgram_len), 2);

  Entry& entry = entries_[station_of(frame)];
  entry.client = client;
  entry.length = static_cast<std::uint16_t>(length);
  entry.datagram = datagram;
  const auto note = [&](Block& block, std::size_t offset) {
    block.mask = load(&mask[offset]);
    block.value = load(frame + offset) & block.mask;
  };
  note(entry.blocks[0], length - kBlockBytes);
  for (std::size_t i = 1, at = 0; at + kBlockBytes < length; ++i, at += kBlockBytes) {
    note(entry.blocks[i], at);
  }
}

}  // namespace rockhopper::stack
