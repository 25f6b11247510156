// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/mld.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "stack/byte_order.h"
#include "stack/neighbour_discovery.h"
#include "stack/time_units.h"

namespace rockhopper::stack {
namespace {

constexpr std::size_t kMldCodeOffset = 1;
constexpr std::size_t kMldMaxResponseOffset = 4;
constexpr std::size_t kMldGroupOffset = 8;
constexpr std::size_t kMldV1Size = 24;
constexpr std::size_t kMldSourceSize = 16;
constexpr std::uint8_t kMldHopLimit = 1;

constexpr IpAddress kAllMldRouters{{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
constexpr IpAddress kAllMldReportRouters{{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x16}};

std::uint32_t load_be16(const std::uint8_t* at) { return std::uint32_t{at[0]} << 8 | at[1]; }

/// Which version it is: RFC 3810, section 8.1.
HostDrop parse_mld_query(std::span<const std::uint8_t> bytes, const IpAddress& destination,
                         MembershipQuery& query) {
  const std::uint32_t code = load_be16(&bytes[kMldMaxResponseOffset]);
  query.group = IpAddress::from_bytes(&bytes[kMldGroupOffset]);
  if (bytes.size() >= kMldV1Size + kQueryTailSize) {
    if (!parse_query_tail(bytes.subspan(kMldV1Size), kMldSourceSize, query)) {
      return HostDrop::mld_bad_length;
    }
    query.max_response_ns = decode_membership_time(code, 16) * kNsPerMs;
  } else if (bytes.size() != kMldV1Size) {
    return HostDrop::mld_bad_length;
  } else {
    query.version = 2;
    query.max_response_ns = code * kNsPerMs;
  }
  const bool general = query.group.is_unspecified();
  if (!general && (query.group.is_ipv4() || !query.group.is_multicast())) {
    return HostDrop::mld_bad_group;
  }
  if (destination.is_multicast() && destination != (general ? kAllNodesGroup : query.group)) {
    return HostDrop::mld_bad_destination;
  }
  return HostDrop::none;
}

}  // namespace

HostDrop parse_mld(std::span<const std::uint8_t> bytes, const IpAddress& source,
                   const IpAddress& destination, std::uint8_t hop_limit, bool router_alert,
                   MldMessage& message) {
  // RFC 3810, section 6.2: else it may have come through a router.
  if (hop_limit != kMldHopLimit) return HostDrop::mld_bad_hop_limit;
  if (!router_alert) return HostDrop::mld_no_router_alert;
  if (bytes.size() < kMldV1Size) return HostDrop::mld_bad_length;
  if (bytes[kMldCodeOffset] != 0) return HostDrop::mld_unsupported;
  switch (bytes[0]) {
    case kMldQuery:
      message.is_query = true;
      if (!source.is_link_local()) return HostDrop::mld_bad_source;
      return parse_mld_query(bytes, destination, message.query);
    case kMldReportV1:
      message.is_query = false;
      message.group = IpAddress::from_bytes(&bytes[kMldGroupOffset]);
      if (!source.is_link_local()) return HostDrop::mld_bad_source;
      return message.group == destination ? HostDrop::none : HostDrop::mld_bad_destination;
    default:
      return HostDrop::mld_unsupported;
  }
}

IpAddress mld_destination(std::uint8_t version, const MembershipRecord& record) {
  if (version >= 3) return kAllMldReportRouters;
  return record.state == MembershipState::left ? kAllMldRouters : record.group;
}

std::size_t emit_mld(std::uint8_t version, std::span<const MembershipRecord> records,
                     std::span<std::uint8_t> out) {
  const std::size_t length = version >= 3 ? report_size(records) : kMldV1Size;
  assert(!records.empty() && out.size() >= length);
  std::fill_n(out.begin(), length, std::uint8_t{0});
  if (version >= 3) {
    out[0] = kMldReportV2;
    emit_records(records, out);
  } else {
    assert(records.size() == 1);
    out[0] = records[0].state == MembershipState::left ? kMldDoneV1 : kMldReportV1;
    std::copy(records[0].group.bytes.begin(), records[0].group.bytes.end(), &out[kMldGroupOffset]);
  }
  return length;
}

}  // namespace rockhopper::stack
