// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/ip_header.h"

#include <algorithm>
#include <cstring>

#include <netinet/in.h>
#include <rte_byteorder.h>
#include <rte_ip.h>

namespace rockhopper::stack {
namespace {

constexpr unsigned kIpv6Version = 6;

IpAddress from_bytes(const std::uint8_t* bytes) {
  IpAddress address;
  std::memcpy(address.bytes.data(), bytes, address.bytes.size());
  return address;
}

}  // namespace

HostDrop parse_ipv4(std::span<const std::uint8_t> bytes, std::uint32_t frame_length,
                    bool checksum_is_good, IpHeader& header) {
  rte_ipv4_hdr ip;
  if (bytes.size() < sizeof ip) return HostDrop::ipv4_truncated;
  std::memcpy(&ip, bytes.data(), sizeof ip);
  if (ip.version_ihl >> 4 != IPVERSION) return HostDrop::ipv4_bad_version;
  if (rte_ipv4_hdr_len(&ip) < sizeof ip) return HostDrop::ipv4_bad_header_length;
  if (rte_ipv4_hdr_len(&ip) > sizeof ip) return HostDrop::ipv4_options;
  const std::uint16_t total_length = rte_be_to_cpu_16(ip.total_length);
  if (total_length < sizeof ip || total_length > frame_length)
    return HostDrop::ipv4_bad_total_length;
  if (!checksum_is_good && rte_raw_cksum(&ip, sizeof ip) != 0xffff)
    return HostDrop::ipv4_bad_checksum;
  constexpr std::uint16_t kFragmentMask = RTE_IPV4_HDR_MF_FLAG | RTE_IPV4_HDR_OFFSET_MASK;
  if ((ip.fragment_offset & rte_cpu_to_be_16(kFragmentMask)) != 0) return HostDrop::ipv4_fragment;

  header.source = IpAddress::from_ipv4(rte_be_to_cpu_32(ip.src_addr));
  header.destination = IpAddress::from_ipv4(rte_be_to_cpu_32(ip.dst_addr));
  header.protocol = ip.next_proto_id;
  header.traffic_class = ip.type_of_service;
  header.hop_limit = ip.time_to_live;
  header.length = sizeof ip;
  header.payload_length = static_cast<std::uint16_t>(total_length - sizeof ip);
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
  switch (ip.proto) {
    case IPPROTO_FRAGMENT:
      return HostDrop::ipv6_fragment;
    case IPPROTO_HOPOPTS:
    case IPPROTO_ROUTING:
    case IPPROTO_DSTOPTS:
    case IPPROTO_AH:
    case IPPROTO_ESP:
    case IPPROTO_MH:
      return HostDrop::ipv6_extension_header;
    default:
      break;
  }
  header.source = from_bytes(ip.src_addr);
  header.destination = from_bytes(ip.dst_addr);
  // The mapped form stands for IPv4 here; on the wire it is never valid (RFC 4942, section 2.2).
  if (header.source.is_ipv4() || header.destination.is_ipv4()) return HostDrop::ipv6_mapped_address;
  header.protocol = ip.proto;
  header.traffic_class = static_cast<std::uint8_t>(version_class_label >> RTE_IPV6_HDR_TC_SHIFT);
  header.hop_limit = ip.hop_limits;
  header.length = sizeof ip;
  header.payload_length = payload_length;
  header.flow_label = version_class_label & RTE_IPV6_HDR_FL_MASK;
  return HostDrop::none;
}

std::uint8_t emit_ip(const IpHeader& header, std::uint8_t* out) {
  if (header.source.is_ipv4()) {
    rte_ipv4_hdr ip{};
    ip.version_ihl = RTE_IPV4_VHL_DEF;
    ip.type_of_service = header.traffic_class;
    ip.total_length =
        rte_cpu_to_be_16(static_cast<std::uint16_t>(sizeof ip + header.payload_length));
    ip.fragment_offset = rte_cpu_to_be_16(RTE_IPV4_HDR_DF_FLAG);
    ip.time_to_live = header.hop_limit;
    ip.next_proto_id = header.protocol;
    ip.src_addr = rte_cpu_to_be_32(header.source.ipv4());
    ip.dst_addr = rte_cpu_to_be_32(header.destination.ipv4());
    ip.hdr_checksum = rte_ipv4_cksum(&ip);
    std::memcpy(out, &ip, sizeof ip);
    return sizeof ip;
  }
  rte_ipv6_hdr ip{};
  ip.vtc_flow = rte_cpu_to_be_32(kIpv6Version << 28 |
                                 std::uint32_t{header.traffic_class} << RTE_IPV6_HDR_TC_SHIFT |
                                 (header.flow_label & RTE_IPV6_HDR_FL_MASK));
  ip.payload_len = rte_cpu_to_be_16(header.payload_length);
  ip.proto = header.protocol;
  ip.hop_limits = header.hop_limit;
  std::copy(header.source.bytes.begin(), header.source.bytes.end(), ip.src_addr);
  std::copy(header.destination.bytes.begin(), header.destination.bytes.end(), ip.dst_addr);
  std::memcpy(out, &ip, sizeof ip);
  return sizeof ip;
}

}  // namespace rockhopper::stack
