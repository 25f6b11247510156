// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/known_headers.h"

#include <array>
#include <cassert>
#include <cstddef>
#include <cstring>

#include <rte_ip.h>
#include <rte_udp.h>

namespace rockhopper::stack {

static_assert(kUdpHeaderBytes == sizeof(rte_udp_hdr) && offsetof(rte_udp_hdr, src_port) == 0 &&
              offsetof(rte_udp_hdr, dgram_len) == 4);

std::uint64_t KnownHeaders::remember(const UdpDatagram& datagram, UdpClient* client) {
  constexpr Layout kIpv4{.length_at = offsetof(rte_ipv4_hdr, total_length),
                         .length_more = 0,
                         .class_shift = 0,
                         .hop_limit_at = offsetof(rte_ipv4_hdr, time_to_live)};
  constexpr Layout kIpv6{.length_at = offsetof(rte_ipv6_hdr, payload_len),
                         .length_more = sizeof(rte_ipv6_hdr),
                         .class_shift = 4,
                         .hop_limit_at = offsetof(rte_ipv6_hdr, hop_limits)};
  const rte_mbuf* packet = datagram.packet;
  const std::size_t length = datagram.payload_offset;
  if (packet->data_len < length || (packet->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) != 0) return 0;
  assert(length >= kLengthMin && length <= kLengthMax);
  const auto* frame = rte_pktmbuf_mtod(packet, const std::uint8_t*);
  std::array<std::uint8_t, kLengthMax> mask;
  mask.fill(0xff);
  const auto ignore = [&mask](std::size_t offset, std::size_t size) {
    std::memset(&mask[offset], 0, size);
  };
  const std::size_t l3 = datagram.l3_offset;
  const std::size_t udp = length - kUdpHeaderBytes;
  const bool is_ipv4 = udp - l3 == sizeof(rte_ipv4_hdr);
  if (is_ipv4) {
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
  entry.l3_length = static_cast<std::uint16_t>(udp - l3);
  entry.layout = is_ipv4 ? kIpv4 : kIpv6;
  entry.address_sum =
      is_ipv4 ? std::uint64_t{load_word(frame + l3 + offsetof(rte_ipv4_hdr, src_addr))} +
                    load_word(frame + l3 + offsetof(rte_ipv4_hdr, dst_addr))
              : 0;
  entry.datagram = datagram;
  entry.datagram.known = ++remembered_;
  const auto note = [&](Block& block, std::size_t offset) {
    block.mask = load(&mask[offset]);
    block.value = load(frame + offset) & block.mask;
  };
  note(entry.blocks[0], length - kBlockBytes);
  for (std::size_t i = 1, at = 0; at + kBlockBytes < length; ++i, at += kBlockBytes) {
    note(entry.blocks[i], at);
  }
  return entry.datagram.known;
}

}  // namespace rockhopper::stack
