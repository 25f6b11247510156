// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <span>

#include "stack/host_counters.h"
#include "stack/ip_address.h"
#include "stack/membership_message.h"

namespace rockhopper::stack {

/// IGMP, versions 1 to 3 (RFC 1112, RFC 2236, RFC 3376): the bytes behind the IPv4 header.
inline constexpr std::size_t kIgmpHeaderSize = 8;
inline constexpr std::size_t kIgmpRecordSize = 8;

/// 224.0.0.1.
inline constexpr IpAddress kAllSystemsGroup{
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 224, 0, 0, 1}};

/// What of IGMP a host has to hear.
struct IgmpMessage {
  bool is_query = false;
  MembershipQuery query;  ///< of a query
  IpAddress group;        ///< of another host's report, version 1 or 2
};

/// Reads the message `bytes`, whose checksum has been verified and which came to `destination`,
/// with a Router Alert option or not. Returns HostDrop::none if it is of use.
[[nodiscard]] HostDrop parse_igmp(std::span<const std::uint8_t> bytes, const IpAddress& destination,
                                  bool router_alert, IgmpMessage& message);

/// Where a report of `version` about `record` goes.
[[nodiscard]] IpAddress igmp_destination(std::uint8_t version, const MembershipRecord& record);

/// Writes a report about `records`, below version 3 about exactly one (which has no `left` in
/// version 1), with its checksum, and returns its length. `out` has room for the header and a
/// record each.
std::size_t emit_igmp(std::uint8_t version, std::span<const MembershipRecord> records,
                      std::span<std::uint8_t> out);

}  // namespace rockhopper::stack
