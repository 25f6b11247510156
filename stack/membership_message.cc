// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/membership_message.h"

#include <algorithm>
#include <cassert>

#include "stack/igmp.h"
#include "stack/mld.h"
#include "stack/time_units.h"

namespace rockhopper::stack {
namespace {

static_assert(kIgmpHeaderSize == kMldHeaderSize);
constexpr std::size_t kRecordCountOffset = 6;
constexpr std::size_t kRecordGroupOffset = 4;
static_assert(kIgmpRecordSize == kRecordGroupOffset + 4);
static_assert(kMldRecordSize == kRecordGroupOffset + 16);

constexpr std::size_t kIntervalOffset = 1;
constexpr std::size_t kSourceCountOffset = 2;
constexpr std::uint8_t kRobustnessMask = 7;

}  // namespace

bool parse_query_tail(std::span<const std::uint8_t> tail, std::size_t source_size,
                      MembershipQuery& query) {
  assert(tail.size() >= kQueryTailSize);
  const std::size_t sources =
      std::size_t{tail[kSourceCountOffset]} << 8 | tail[kSourceCountOffset + 1];
  if (sources * source_size > tail.size() - kQueryTailSize) return false;
  query.version = kMembershipVersion;
  query.robustness = tail[0] & kRobustnessMask;
  query.query_interval_ns = decode_membership_time(tail[kIntervalOffset], 8) * kNsPerSecond;
  return true;
}

std::size_t report_size(std::span<const MembershipRecord> records) {
  const bool ipv4 = !records.empty() && records[0].group.is_ipv4();
  return kIgmpHeaderSize + records.size() * (ipv4 ? kIgmpRecordSize : kMldRecordSize);
}

void emit_records(std::span<const MembershipRecord> records, std::span<std::uint8_t> report) {
  assert(report.size() >= report_size(records));
  report[kRecordCountOffset] = static_cast<std::uint8_t>(records.size() >> 8);
  report[kRecordCountOffset + 1] = static_cast<std::uint8_t>(records.size());
  auto at = report.begin() + kIgmpHeaderSize;
  for (const MembershipRecord& record : records) {
    *at = static_cast<std::uint8_t>(record.state);
    const auto& group = record.group.bytes;
    at = std::copy(group.begin() + (record.group.is_ipv4() ? 12 : 0), group.end(),
                   at + kRecordGroupOffset);
  }
}

}  // namespace rockhopper::stack
