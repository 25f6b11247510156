// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/address_vector.h"

#include <cstddef>
#include <cstring>

#include <rte_ip.h>

#include "stack/ecn.h"
#include "stack/roce_locator.h"

namespace rockhopper::roce {
namespace {

/// Entropy for the network's hashing, in the range that RNICs use. From the flow label when there
/// is one (IBTA annex A17).
std::uint16_t source_port(std::uint32_t flow_label, std::uint64_t entropy) {
  constexpr std::uint32_t kFirst = 0xc000;
  constexpr std::uint32_t kMask = 0x3fff;
  std::uint32_t label = flow_label;
  if (label == 0) label = static_cast<std::uint32_t>(entropy * 0x9e3779b97f4a7c15 >> 44);
  return static_cast<std::uint16_t>(kFirst | ((label ^ label >> 14) & kMask));
}

/// A packet that says it is ECN-capable is marked where others are dropped, so only a sender that
/// obeys notifications may say it (RFC 3168, section 5); the queue pair knows. Recipes for RNICs,
/// which mask these bits, use classes with them (106). A mark stays: with it a peer's notifications
/// are tried.
std::uint8_t without_capability(std::uint8_t traffic_class) {
  const bool marked = (traffic_class & stack::kEcnMask) == stack::kEcnCe;
  return marked ? traffic_class : static_cast<std::uint8_t>(traffic_class & ~stack::kEcnMask);
}

}  // namespace

Expected<void> check_address_vector(const AddressVector& av) {
  if (av.destination.is_multicast()) {
    return fail(ErrorCode::invalid_argument, "the multicast group {} takes datagrams only",
                av.destination.to_string());
  }
  return check_datagram_vector(av);
}

Expected<void> check_datagram_vector(const AddressVector& av) {
  if (av.destination.is_unspecified() || av.destination.is_ipv4() != av.source.is_ipv4()) {
    return fail(ErrorCode::invalid_argument,
                "an address vector needs two addresses of one family, not {} and {}",
                av.source.to_string(), av.destination.to_string());
  }
  if (av.flow_label > 0xfffff || av.service_level > 7) {
    return fail(ErrorCode::invalid_argument, "flow labels have 20 bits, service levels 3");
  }
  return {};
}

stack::FlowConfig flow_config(const AddressVector& av, std::uint64_t entropy) {
  return {.source = av.source,
          .destination = av.destination,
          .source_port = source_port(av.flow_label, entropy),
          .destination_port = stack::kRoceUdpPort,
          .traffic_class = without_capability(av.traffic_class),
          .hop_limit = av.hop_limit,
          .flow_label = av.flow_label,
          .priority = av.service_level,
          .priority_tag = av.priority_tag};
}

AddressVector reply_vector(std::span<const std::byte, kGrhBytes> grh) {
  AddressVector reply;
  if (std::to_integer<unsigned>(grh[0]) >> 4 == 6) {
    reply.destination = stack::IpAddress::from_bytes(&grh[offsetof(rte_ipv6_hdr, src_addr)]);
    reply.source = stack::IpAddress::from_bytes(&grh[offsetof(rte_ipv6_hdr, dst_addr)]);
    return reply;
  }
  rte_ipv4_hdr header;
  std::memcpy(&header, &grh[kGrhBytes - sizeof header], sizeof header);
  reply.destination = stack::IpAddress::from_ipv4(rte_be_to_cpu_32(header.src_addr));
  reply.source = stack::IpAddress::from_ipv4(rte_be_to_cpu_32(header.dst_addr));
  return reply;
}

}  // namespace rockhopper::roce
