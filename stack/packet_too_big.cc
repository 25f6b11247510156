// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/packet_too_big.h"

#include <cstring>

#include <netinet/in.h>
#include <rte_byteorder.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "stack/ip_header.h"

namespace rockhopper::stack {
namespace {

/// Before the quoted packet: type, code, checksum, and four bytes, for IPv4 two, of MTU at the end.
constexpr std::size_t kQuoteOffset = 8;
constexpr std::uint32_t kIpv4MtuMin = 68;  // RFC 791, section 3.2
constexpr std::uint32_t kIpv6MtuMin = RTE_IPV6_MIN_MTU;
constexpr std::uint32_t kIpv4MtuMask = 0xffff;  // RFC 1191, section 4: the rest is unused
static_assert(kPacketTooBigMax == kQuoteOffset + sizeof(rte_ipv6_hdr) + sizeof(rte_udp_hdr));

/// No options, no fragment, and not to be fragmented.
bool is_ours(const rte_ipv4_hdr& ip) {
  return ip.version_ihl == RTE_IPV4_VHL_DEF && ip.next_proto_id == IPPROTO_UDP &&
         ip.fragment_offset == rte_cpu_to_be_16(RTE_IPV4_HDR_DF_FLAG);
}

bool is_ours(const rte_ipv6_hdr& ip) {
  return rte_be_to_cpu_32(ip.vtc_flow) >> 28 == kIpv6Version && ip.proto == IPPROTO_UDP;
}

}  // namespace

HostDrop parse_packet_too_big(std::span<const std::uint8_t> bytes, bool ipv4,
                              PacketTooBig& message) {
  const std::size_t ip_size = ipv4 ? sizeof(rte_ipv4_hdr) : sizeof(rte_ipv6_hdr);
  rte_udp_hdr udp;
  if (bytes.size() < kQuoteOffset + ip_size + sizeof udp) return HostDrop::icmp_truncated;
  if (ipv4) {
    rte_ipv4_hdr ip;
    std::memcpy(&ip, &bytes[kQuoteOffset], sizeof ip);
    if (!is_ours(ip)) return HostDrop::icmp_bad_quote;
    message.source = IpAddress::from_ipv4(rte_be_to_cpu_32(ip.src_addr));
    message.destination = IpAddress::from_ipv4(rte_be_to_cpu_32(ip.dst_addr));
    message.length = rte_be_to_cpu_16(ip.total_length);
  } else {
    rte_ipv6_hdr ip;
    std::memcpy(&ip, &bytes[kQuoteOffset], sizeof ip);
    if (!is_ours(ip)) return HostDrop::icmp_bad_quote;
    message.source = IpAddress::from_bytes(&ip.src_addr);
    message.destination = IpAddress::from_bytes(&ip.dst_addr);
    message.length = std::uint32_t{rte_be_to_cpu_16(ip.payload_len)} + std::uint32_t{sizeof ip};
  }
  std::memcpy(&udp, &bytes[kQuoteOffset + ip_size], sizeof udp);
  if (message.length != ip_size + rte_be_to_cpu_16(udp.dgram_len)) return HostDrop::icmp_bad_quote;
  message.source_port = rte_be_to_cpu_16(udp.src_port);
  message.destination_port = rte_be_to_cpu_16(udp.dst_port);
  rte_be32_t mtu = 0;
  std::memcpy(&mtu, &bytes[kQuoteOffset - sizeof mtu], sizeof mtu);
  message.mtu = rte_be_to_cpu_32(mtu) & (ipv4 ? kIpv4MtuMask : UINT32_MAX);
  const bool not_told = ipv4 && message.mtu == 0;
  if (!not_told &&
      (message.mtu < (ipv4 ? kIpv4MtuMin : kIpv6MtuMin) || message.mtu >= message.length)) {
    return HostDrop::icmp_bad_mtu;
  }
  return HostDrop::none;
}

}  // namespace rockhopper::stack
