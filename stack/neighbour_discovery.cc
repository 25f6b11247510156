// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/neighbour_discovery.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace rockhopper::stack {
namespace {

constexpr std::size_t kFixedSize = 24;  // type, code, checksum, flags, target
constexpr std::size_t kFlagsOffset = 4;
constexpr std::size_t kTargetOffset = 8;
constexpr std::uint8_t kSolicitedFlag = 0x40;
constexpr std::uint8_t kOverrideFlag = 0x20;
constexpr std::uint8_t kSourceLinkAddress = 1;
constexpr std::uint8_t kTargetLinkAddress = 2;
constexpr std::size_t kOptionUnit = 8;  // option lengths count units of 8 bytes

/// Reads the link-layer address option of type `wanted` if there is one; false if an option is
/// malformed.
bool parse_options(std::span<const std::uint8_t> options, std::uint8_t wanted,
                   std::optional<rte_ether_addr>& link_address) {
  while (!options.empty()) {
    if (options.size() < 2) return false;
    const std::size_t length = options[1] * kOptionUnit;
    if (length == 0 || length > options.size()) return false;
    if (options[0] == wanted) {
      if (length != kOptionUnit) return false;
      rte_ether_addr mac;
      std::memcpy(&mac, &options[2], sizeof mac);
      if (rte_is_valid_assigned_ether_addr(&mac) == 0) return false;
      link_address = mac;
    }
    options = options.subspan(length);
  }
  return true;
}

/// RFC 4861, section 2.3: any of ff02::1:ff00:0/104.
bool is_solicited_node_group(const IpAddress& address) {
  constexpr IpAddress kGroup{{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff}};
  return std::equal(address.bytes.begin(), address.bytes.begin() + 13, kGroup.bytes.begin());
}

}  // namespace

HostDrop NeighbourMessage::parse(std::span<const std::uint8_t> bytes, const IpAddress& source,
                                 const IpAddress& destination, NeighbourMessage& message) {
  if (bytes.size() < kFixedSize) return HostDrop::nd_bad_length;
  message.is_solicitation = bytes[0] == kNeighbourSolicitation;
  assert(message.is_solicitation || bytes[0] == kNeighbourAdvertisement);
  if (bytes[1] != 0) return HostDrop::nd_bad_code;
  message.target = IpAddress::from_bytes(&bytes[kTargetOffset]);
  const IpAddress& target = message.target;
  if (target.is_multicast() || target.is_unspecified() || target.is_ipv4()) {
    return HostDrop::nd_bad_target;
  }
  const std::uint8_t wanted = message.is_solicitation ? kSourceLinkAddress : kTargetLinkAddress;
  if (!parse_options(bytes.subspan(kFixedSize), wanted, message.link_address)) {
    return HostDrop::nd_bad_option;
  }
  if (message.is_solicitation) {
    if (!source.is_unspecified()) return HostDrop::none;
    if (!is_solicited_node_group(destination)) return HostDrop::nd_bad_destination;
    return message.link_address ? HostDrop::nd_bad_option : HostDrop::none;
  }
  message.solicited = (bytes[kFlagsOffset] & kSolicitedFlag) != 0;
  message.override_mac = (bytes[kFlagsOffset] & kOverrideFlag) != 0;
  if (source.is_unspecified()) return HostDrop::nd_bad_source;
  if (message.solicited && destination.is_multicast()) return HostDrop::nd_bad_destination;
  return HostDrop::none;
}

std::size_t NeighbourMessage::emit(std::span<std::uint8_t, kSizeMax> out) const {
  std::fill(out.begin(), out.end(), std::uint8_t{0});
  out[0] = is_solicitation ? kNeighbourSolicitation : kNeighbourAdvertisement;
  if (!is_solicitation) {
    out[kFlagsOffset] = static_cast<std::uint8_t>((solicited ? kSolicitedFlag : 0) |
                                                  (override_mac ? kOverrideFlag : 0));
  }
  std::copy(target.bytes.begin(), target.bytes.end(), &out[kTargetOffset]);
  if (!link_address) return kFixedSize;
  out[kFixedSize] = is_solicitation ? kSourceLinkAddress : kTargetLinkAddress;
  out[kFixedSize + 1] = 1;
  std::memcpy(&out[kFixedSize + 2], &*link_address, sizeof *link_address);
  return kFixedSize + kOptionUnit;
}

IpAddress link_local_address(const rte_ether_addr& mac) {
  const auto& m = mac.addr_bytes;
  return {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(m[0] ^ 0x02), m[1], m[2], 0xff,
           0xfe, m[3], m[4], m[5]}};
}

}  // namespace rockhopper::stack
