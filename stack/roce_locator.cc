// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/roce_locator.h"

#include <array>
#include <cstddef>

#include <netinet/in.h>
#include <rte_byteorder.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "stack/byte_order.h"
#include "stack/mbuf_read.h"

namespace rockhopper::stack {
namespace {

constexpr std::size_t kBthSize = 12;
constexpr std::size_t kQpnAt = 5;
constexpr std::size_t kPsnAt = 9;

/// Returns where the UDP header begins, if `frame` has one at `l3`, where its IPv4 header is.
std::optional<std::uint32_t> udp_behind_ipv4(const rte_mbuf* frame, std::uint32_t l3) {
  const auto ip = read_at<rte_ipv4_hdr>(frame, l3);
  if (!ip || ip->next_proto_id != IPPROTO_UDP || rte_ipv4_hdr_len(&*ip) < sizeof(rte_ipv4_hdr)) {
    return std::nullopt;
  }
  if ((ip->fragment_offset & rte_cpu_to_be_16(RTE_IPV4_HDR_OFFSET_MASK)) != 0) return std::nullopt;
  return l3 + rte_ipv4_hdr_len(&*ip);
}

std::optional<std::uint32_t> udp_behind_ipv6(const rte_mbuf* frame, std::uint32_t l3) {
  const auto ip = read_at<rte_ipv6_hdr>(frame, l3);
  if (!ip || ip->proto != IPPROTO_UDP) return std::nullopt;
  return l3 + static_cast<std::uint32_t>(sizeof(rte_ipv6_hdr));
}

std::optional<std::uint32_t> find_udp(const rte_mbuf* frame) {
  const auto ethernet = read_at<rte_ether_hdr>(frame, 0);
  if (!ethernet) return std::nullopt;
  auto l3 = static_cast<std::uint32_t>(sizeof(rte_ether_hdr));
  rte_be16_t type = ethernet->ether_type;
  if (type == rte_cpu_to_be_16(RTE_ETHER_TYPE_VLAN)) {
    const auto tag = read_at<rte_vlan_hdr>(frame, l3);
    if (!tag) return std::nullopt;
    type = tag->eth_proto;
    l3 += static_cast<std::uint32_t>(sizeof(rte_vlan_hdr));
  }
  if (type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4)) return udp_behind_ipv4(frame, l3);
  if (type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV6)) return udp_behind_ipv6(frame, l3);
  return std::nullopt;
}

constexpr std::uint32_t kPlainBthAt =
    sizeof(rte_ether_hdr) + sizeof(rte_ipv4_hdr) + sizeof(rte_udp_hdr);

/// Nearly all frames are such: no tag, IPv4 without options, no later fragment, UDP to the port of
/// RoCEv2, and all of that and a BTH in one piece. What is not may be RoCEv2 nevertheless.
bool is_plain(const rte_mbuf* frame) {
  if (frame->data_len < kPlainBthAt + kBthSize) return false;
  const auto* ethernet = rte_pktmbuf_mtod(frame, const std::uint8_t*);
  const auto* ip = ethernet + sizeof(rte_ether_hdr);
  const auto* udp = ip + sizeof(rte_ipv4_hdr);
  constexpr std::uint8_t kWithoutOptions = 0x45;
  return load_be16(ethernet + offsetof(rte_ether_hdr, ether_type)) == RTE_ETHER_TYPE_IPV4 &&
         ip[0] == kWithoutOptions && ip[offsetof(rte_ipv4_hdr, next_proto_id)] == IPPROTO_UDP &&
         (load_be16(ip + offsetof(rte_ipv4_hdr, fragment_offset)) & RTE_IPV4_HDR_OFFSET_MASK) ==
             0 &&
         load_be16(udp + offsetof(rte_udp_hdr, dst_port)) == kRoceUdpPort;
}

}  // namespace

std::optional<std::uint32_t> find_bth(const rte_mbuf* frame) {
  if (is_plain(frame)) [[likely]] {
    return kPlainBthAt;
  }
  const auto offset = find_udp(frame);
  if (!offset) return std::nullopt;
  const auto udp = read_at<rte_udp_hdr>(frame, *offset);
  if (!udp || udp->dst_port != rte_cpu_to_be_16(kRoceUdpPort)) return std::nullopt;
  return *offset + static_cast<std::uint32_t>(sizeof(rte_udp_hdr));
}

std::optional<BthSummary> read_bth(const rte_mbuf* frame) {
  const auto offset = find_bth(frame);
  return offset ? read_bth(frame, *offset) : std::nullopt;
}

std::optional<BthSummary> read_bth(const rte_mbuf* frame, std::uint32_t offset) {
  const auto bth = read_at<std::array<std::uint8_t, kBthSize>>(frame, offset);
  if (!bth) return std::nullopt;
  const auto be24 = [&bth](std::size_t at) {
    return std::uint32_t{(*bth)[at]} << 16 | std::uint32_t{(*bth)[at + 1]} << 8 | (*bth)[at + 2];
  };
  return BthSummary{.opcode = (*bth)[0], .destination_qpn = be24(kQpnAt), .psn = be24(kPsnAt)};
}

std::optional<std::uint32_t> psn_sequence(const BthSummary& bth) {
  const unsigned service = bth.opcode & 0xe0u;
  const unsigned operation = bth.opcode & 0x1fu;
  constexpr unsigned kRc = 0x00;
  constexpr unsigned kUc = 0x20;
  constexpr unsigned kXrc = 0xa0;
  if (service != kRc && service != kUc && service != kXrc) return std::nullopt;
  constexpr unsigned kReadResponseFirst = 0x0d;
  constexpr unsigned kAtomicAcknowledge = 0x12;
  return operation >= kReadResponseFirst && operation <= kAtomicAcknowledge ? 1 : 0;
}

}  // namespace rockhopper::stack
