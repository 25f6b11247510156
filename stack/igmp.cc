// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/igmp.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include <rte_byteorder.h>
#include <rte_ip.h>

#include "stack/time_units.h"

namespace rockhopper::stack {
namespace {

constexpr std::uint8_t kQuery = 0x11;
constexpr std::uint8_t kReportV1 = 0x12;
constexpr std::uint8_t kReportV2 = 0x16;
constexpr std::uint8_t kLeaveV2 = 0x17;
constexpr std::uint8_t kReportV3 = 0x22;

constexpr std::size_t kIgmpCodeOffset = 1;
constexpr std::size_t kIgmpChecksumOffset = 2;
constexpr std::size_t kIgmpGroupOffset = 4;
constexpr std::size_t kIgmpSourceSize = 4;

constexpr std::uint64_t kTenthNs = 100'000'000;
/// RFC 3376, section 7.2.1: what version 1, which has no such field, means.
constexpr std::uint64_t kMaxResponseV1Ns = 10 * kNsPerSecond;

constexpr IpAddress kAllIgmpRouters{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 224, 0, 0, 2}};
constexpr IpAddress kAllIgmpReportRouters{
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 224, 0, 0, 22}};

IpAddress load_group(const std::uint8_t* at) {
  rte_be32_t bytes = 0;
  std::memcpy(&bytes, at, sizeof bytes);
  return IpAddress::from_ipv4(rte_be_to_cpu_32(bytes));
}

/// Which version it is: RFC 3376, section 7.1.
HostDrop parse_igmp_query(std::span<const std::uint8_t> bytes, const IpAddress& destination,
                          bool router_alert, MembershipQuery& query) {
  const std::uint8_t code = bytes[kIgmpCodeOffset];
  query.group = load_group(&bytes[kIgmpGroupOffset]);
  if (bytes.size() >= kIgmpHeaderSize + kQueryTailSize) {
    if (!parse_query_tail(bytes.subspan(kIgmpHeaderSize), kIgmpSourceSize, query)) {
      return HostDrop::igmp_bad_length;
    }
    query.max_response_ns = decode_membership_time(code, 8) * kTenthNs;
  } else if (bytes.size() != kIgmpHeaderSize) {
    return HostDrop::igmp_bad_length;
  } else {
    query.version = code == 0 ? 1 : 2;
    query.max_response_ns = code == 0 ? kMaxResponseV1Ns : code * kTenthNs;
  }
  // RFC 3376, section 9.1: what a router on this link has sent carries the option.
  if (query.version > 1 && !router_alert) return HostDrop::igmp_no_router_alert;
  const bool general = query.group.is_unspecified();
  if (!general && !query.group.is_multicast()) return HostDrop::igmp_bad_group;
  // Version 3 may ask one host alone, for debugging (RFC 3376, section 4.1.12).
  if (destination.is_multicast() && destination != (general ? kAllSystemsGroup : query.group)) {
    return HostDrop::igmp_bad_destination;
  }
  return HostDrop::none;
}

}  // namespace

HostDrop parse_igmp(std::span<const std::uint8_t> bytes, const IpAddress& destination,
                    bool router_alert, IgmpMessage& message) {
  if (bytes.size() < kIgmpHeaderSize) return HostDrop::igmp_bad_length;
  switch (bytes[0]) {
    case kQuery:
      message.is_query = true;
      return parse_igmp_query(bytes, destination, router_alert, message.query);
    case kReportV1:
    case kReportV2:
      message.is_query = false;
      message.group = load_group(&bytes[kIgmpGroupOffset]);
      return message.group == destination ? HostDrop::none : HostDrop::igmp_bad_destination;
    default:
      return HostDrop::igmp_unsupported;
  }
}

IpAddress igmp_destination(std::uint8_t version, const MembershipRecord& record) {
  if (version >= 3) return kAllIgmpReportRouters;
  return record.state == MembershipState::left ? kAllIgmpRouters : record.group;
}

std::size_t emit_igmp(std::uint8_t version, std::span<const MembershipRecord> records,
                      std::span<std::uint8_t> out) {
  const std::size_t length = version >= 3 ? report_size(records) : kIgmpHeaderSize;
  assert(!records.empty() && out.size() >= length);
  std::fill_n(out.begin(), length, std::uint8_t{0});
  if (version >= 3) {
    out[0] = kReportV3;
    emit_records(records, out);
  } else {
    assert(records.size() == 1);
    const bool left = records[0].state == MembershipState::left;
    assert(!left || version == 2);
    const std::uint8_t report = version == 2 ? kReportV2 : kReportV1;
    out[0] = left ? kLeaveV2 : report;
    std::copy_n(&records[0].group.bytes[12], 4, &out[kIgmpGroupOffset]);
  }
  const std::uint16_t sum = static_cast<std::uint16_t>(~rte_raw_cksum(out.data(), length));
  std::memcpy(&out[kIgmpChecksumOffset], &sum, sizeof sum);
  return length;
}

}  // namespace rockhopper::stack
