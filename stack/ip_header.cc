// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/ip_header.h"

#include <cstddef>
#include <cstring>

#include <netinet/in.h>
#include <rte_byteorder.h>
#include <rte_ip.h>

namespace rockhopper::stack {
namespace {

/// RFC 2113: to be looked at by every router.
constexpr std::uint8_t kIpv4RouterAlert[] = {0x94, 4, 0, 0};
constexpr std::size_t kHopByHopSize = 8;
/// What emit_ip() writes: the next header, length 0, the alert for MLD (RFC 2711), padding.
constexpr std::uint8_t kHopByHop[kHopByHopSize] = {IPPROTO_ICMPV6, 0, 5, 2, 0, 0, 1, 0};

/// The only options are a Router Alert, and the protocol is IGMP.
bool alerts_for_igmp(const rte_ipv4_hdr& ip, std::span<const std::uint8_t> bytes) {
  return ip.next_proto_id == IPPROTO_IGMP &&
         rte_ipv4_hdr_len(&ip) == sizeof ip + sizeof kIpv4RouterAlert &&
         bytes.size() >= sizeof ip + sizeof kIpv4RouterAlert &&
         std::memcmp(&bytes[sizeof ip], kIpv4RouterAlert, sizeof kIpv4RouterAlert) == 0;
}

/// A hop-by-hop header of 8 bytes before ICMPv6, with the alert for MLD and padding only.
bool alerts_for_mld(std::span<const std::uint8_t> header) {
  constexpr std::uint8_t kPad1 = 0;
  constexpr std::uint8_t kPadN = 1;
  if (header.size() < kHopByHopSize || header[0] != IPPROTO_ICMPV6 || header[1] != 0) return false;
  bool alert = false;
  for (std::size_t at = 2; at < kHopByHopSize;) {
    if (header[at] == kPad1) {
      ++at;
      continue;
    }
    if (at + 2 > kHopByHopSize || at + 2 + header[at + 1] > kHopByHopSize) return false;
    const bool is_alert = std::memcmp(&header[at], &kHopByHop[2], 2) == 0;
    if (is_alert ? header[at + 2] != 0 || header[at + 3] != 0 : header[at] != kPadN) return false;
    alert = alert || is_alert;
    at += std::size_t{2} + header[at + 1];
  }
  return alert;
}

}  // namespace

HostDrop parse_ipv4(std::span<const std::uint8_t> bytes, std::uint32_t frame_length,
                    bool checksum_is_good, IpHeader& header) {
  rte_ipv4_hdr ip;
  if (bytes.size() < sizeof ip) return HostDrop::ipv4_truncated;
  std::memcpy(&ip, bytes.data(), sizeof ip);
  if (ip.version_ihl >> 4 != IPVERSION) return HostDrop::ipv4_bad_version;
  if (rte_ipv4_hdr_len(&ip) < sizeof ip) return HostDrop::ipv4_bad_header_length;
  std::uint32_t header_length = sizeof ip;
  if (rte_ipv4_hdr_len(&ip) > sizeof ip) {
    if (!alerts_for_igmp(ip, bytes)) return HostDrop::ipv4_options;
    header_length += sizeof kIpv4RouterAlert;
  }
  const std::uint16_t total_length = rte_be_to_cpu_16(ip.total_length);
  if (total_length < header_length || total_length > frame_length) {
    return HostDrop::ipv4_bad_total_length;
  }
  if (!checksum_is_good && rte_raw_cksum(bytes.data(), header_length) != 0xffff) {
    return HostDrop::ipv4_bad_checksum;
  }
  constexpr std::uint16_t kFragmentMask = RTE_IPV4_HDR_MF_FLAG | RTE_IPV4_HDR_OFFSET_MASK;
  if ((ip.fragment_offset & rte_cpu_to_be_16(kFragmentMask)) != 0) return HostDrop::ipv4_fragment;

  header.source = IpAddress::from_ipv4(rte_be_to_cpu_32(ip.src_addr));
  header.destination = IpAddress::from_ipv4(rte_be_to_cpu_32(ip.dst_addr));
  header.protocol = ip.next_proto_id;
  header.traffic_class = ip.type_of_service;
  header.hop_limit = ip.time_to_live;
  header.length = static_cast<std::uint8_t>(header_length);
  header.router_alert = header_length > sizeof ip;
  header.payload_length = static_cast<std::uint16_t>(total_length - header_length);
  return HostDrop::none;
}

HostDrop parse_ipv6(std::span<const std::uint8_t> bytes, std::uint32_t frame_length,
                    IpHeader& header) {
  rte_ipv6_hdr ip;
  if (bytes.size() < sizeof ip) return HostDrop::ipv6_truncated;
  std::memcpy(&ip, bytes.data(), sizeof ip);
  const std::uint32_t version_class_label = rte_be_to_cpu_32(ip.vtc_flow);
  if (version_class_label >> 28 != kIpv6Version) return HostDrop::ipv6_bad_version;
  const std::uint16_t payload_length = rte_be_to_cpu_16(ip.payload_len);
  if (payload_length > frame_length - sizeof ip) return HostDrop::ipv6_bad_payload_length;
  header.router_alert = false;
  switch (ip.proto) {
    case IPPROTO_FRAGMENT:
      return HostDrop::ipv6_fragment;
    case IPPROTO_HOPOPTS:
      if (payload_length < kHopByHopSize || !alerts_for_mld(bytes.subspan(sizeof ip))) {
        return HostDrop::ipv6_extension_header;
      }
      header.router_alert = true;
      break;
    case IPPROTO_ROUTING:
    case IPPROTO_DSTOPTS:
    case IPPROTO_AH:
    case IPPROTO_ESP:
    case IPPROTO_MH:
      return HostDrop::ipv6_extension_header;
    default:
      break;
  }
  header.source = IpAddress::from_bytes(&ip.src_addr);
  header.destination = IpAddress::from_bytes(&ip.dst_addr);
  // The mapped form stands for IPv4 here; on the wire it is never valid (RFC 4942, section 2.2).
  if (header.source.is_ipv4() || header.destination.is_ipv4()) return HostDrop::ipv6_mapped_address;
  header.protocol = header.router_alert ? std::uint8_t{IPPROTO_ICMPV6} : ip.proto;
  header.traffic_class = static_cast<std::uint8_t>(version_class_label >> RTE_IPV6_HDR_TC_SHIFT);
  header.hop_limit = ip.hop_limits;
  const std::size_t extension = header.router_alert ? kHopByHopSize : 0;
  header.length = static_cast<std::uint8_t>(sizeof ip + extension);
  header.payload_length = static_cast<std::uint16_t>(payload_length - extension);
  header.flow_label = version_class_label & RTE_IPV6_HDR_FL_MASK;
  return HostDrop::none;
}

std::uint8_t emit_ip(const IpHeader& header, std::uint8_t* out) {
  if (header.source.is_ipv4()) {
    rte_ipv4_hdr ip{};
    const std::size_t length = sizeof ip + (header.router_alert ? sizeof kIpv4RouterAlert : 0);
    ip.version_ihl = static_cast<std::uint8_t>(IPVERSION << 4 | length / 4);
    ip.type_of_service = header.traffic_class;
    ip.total_length = rte_cpu_to_be_16(static_cast<std::uint16_t>(length + header.payload_length));
    ip.fragment_offset = rte_cpu_to_be_16(RTE_IPV4_HDR_DF_FLAG);
    ip.time_to_live = header.hop_limit;
    ip.next_proto_id = header.protocol;
    ip.src_addr = rte_cpu_to_be_32(header.source.ipv4());
    ip.dst_addr = rte_cpu_to_be_32(header.destination.ipv4());
    std::memcpy(out, &ip, sizeof ip);
    if (header.router_alert) {
      std::memcpy(out + sizeof ip, kIpv4RouterAlert, sizeof kIpv4RouterAlert);
    }
    const auto checksum = static_cast<std::uint16_t>(~rte_raw_cksum(out, length));
    std::memcpy(out + offsetof(rte_ipv4_hdr, hdr_checksum), &checksum, sizeof checksum);
    return static_cast<std::uint8_t>(length);
  }
  rte_ipv6_hdr ip{};
  ip.vtc_flow = rte_cpu_to_be_32(kIpv6Version << 28 |
                                 std::uint32_t{header.traffic_class} << RTE_IPV6_HDR_TC_SHIFT |
                                 (header.flow_label & RTE_IPV6_HDR_FL_MASK));
  const std::size_t extension = header.router_alert ? kHopByHopSize : 0;
  ip.payload_len = rte_cpu_to_be_16(static_cast<std::uint16_t>(header.payload_length + extension));
  ip.proto = header.router_alert ? std::uint8_t{IPPROTO_HOPOPTS} : header.protocol;
  ip.hop_limits = header.hop_limit;
  std::memcpy(&ip.src_addr, header.source.bytes.data(), sizeof ip.src_addr);
  std::memcpy(&ip.dst_addr, header.destination.bytes.data(), sizeof ip.dst_addr);
  std::memcpy(out, &ip, sizeof ip);
  if (header.router_alert) std::memcpy(out + sizeof ip, kHopByHop, sizeof kHopByHop);
  return static_cast<std::uint8_t>(sizeof ip + extension);
}

}  // namespace rockhopper::stack
