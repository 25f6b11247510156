// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <span>

#include "stack/host_counters.h"
#include "stack/ip_address.h"
#include "stack/membership_message.h"

namespace rockhopper::stack {

/// MLD, versions 1 and 2 (RFC 2710, RFC 3810): ICMPv6 messages. Versions are numbered as IGMP's,
/// see membership_message.h.
inline constexpr std::uint8_t kMldQuery = 130;
inline constexpr std::uint8_t kMldReportV1 = 131;
inline constexpr std::uint8_t kMldDoneV1 = 132;
inline constexpr std::uint8_t kMldReportV2 = 143;

inline constexpr std::size_t kMldHeaderSize = 8;
inline constexpr std::size_t kMldRecordSize = 20;

[[nodiscard]] constexpr bool is_mld(std::uint8_t icmpv6_type) {
  return icmpv6_type == kMldQuery || icmpv6_type == kMldReportV1 || icmpv6_type == kMldDoneV1 ||
         icmpv6_type == kMldReportV2;
}

/// What of MLD a host has to hear.
struct MldMessage {
  bool is_query = false;
  MembershipQuery query;  ///< of a query
  IpAddress group;        ///< of another host's report, version 1
};

/// Reads the ICMPv6 message `bytes` of a type from above, whose checksum has been verified, from
/// `source` to `destination`, with a Router Alert option or not. Returns HostDrop::none if it is of
/// use.
[[nodiscard]] HostDrop parse_mld(std::span<const std::uint8_t> bytes, const IpAddress& source,
                                 const IpAddress& destination, std::uint8_t hop_limit,
                                 bool router_alert, MldMessage& message);

/// Where a report of `version` about `record` goes.
[[nodiscard]] IpAddress mld_destination(std::uint8_t version, const MembershipRecord& record);

/// Writes a report about `records`, below version 3 about exactly one, with checksum 0, and returns
/// its length. `out` has room for the header and a record each.
std::size_t emit_mld(std::uint8_t version, std::span<const MembershipRecord> records,
                     std::span<std::uint8_t> out);

}  // namespace rockhopper::stack
