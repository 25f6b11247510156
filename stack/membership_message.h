// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stack/ip_address.h"

namespace rockhopper::stack {

/// What IGMP and MLD have in common. The versions are IGMP's; MLDv1 counts as 2 and MLDv2 as 3,
/// since each is the other family's protocol under another name (RFC 3810, section 1).
inline constexpr std::uint8_t kMembershipVersionMin = 1;
inline constexpr std::uint8_t kMembershipVersion = 3;

/// A router's question which members there are.
struct MembershipQuery {
  std::uint8_t version = kMembershipVersion;
  IpAddress group;                      ///< of which alone it asks; unspecified: of all
  std::uint64_t max_response_ns = 0;    ///< in which the answer has to come
  std::uint8_t robustness = 0;          ///< packets of which one arrives; 0: not told
  std::uint64_t query_interval_ns = 0;  ///< 0: not told
};

/// What a report says of a group. The numbers are the record types of version 3 (RFC 3376, section
/// 4.2.12) for the two states that there are without source filters: all sources, or none.
enum class MembershipState : std::uint8_t {
  current = 2,  ///< MODE_IS_EXCLUDE: member, as has been asked
  joined = 4,   ///< CHANGE_TO_EXCLUDE_MODE: member from now on
  left = 3,     ///< CHANGE_TO_INCLUDE_MODE: member no longer
};

struct MembershipRecord {
  MembershipState state = MembershipState::current;
  IpAddress group;
};

/// The floating-point codes of version 3 (RFC 3376, section 4.1.1; RFC 3810, section 5.1.3): as
/// they are below the first bit of `bits`, above it 1, an exponent of 3 bits and a mantissa.
[[nodiscard]] constexpr std::uint64_t decode_membership_time(std::uint32_t code, unsigned bits) {
  if ((code >> (bits - 1)) == 0) return code;
  const unsigned mantissa_bits = bits - 4;
  const std::uint64_t mantissa = code & ((1u << mantissa_bits) - 1);
  const unsigned exponent = (code >> mantissa_bits) & 7;
  return (mantissa | 1u << mantissa_bits) << (exponent + 3);
}

/// Reads the last fixed bytes of a version 3 query, from the robustness variable on. `tail` begins
/// there, with kQueryTailSize bytes at least. False if the sources that it counts, of
/// `source_size` bytes each, are not all there.
inline constexpr std::size_t kQueryTailSize = 4;
[[nodiscard]] bool parse_query_tail(std::span<const std::uint8_t> tail, std::size_t source_size,
                                    MembershipQuery& query);

/// Bytes of a version 3 report with `records`, which are all of one family.
[[nodiscard]] std::size_t report_size(std::span<const MembershipRecord> records);
/// Puts what IGMPv3 and MLDv2 have alike, the number of records and the records, into a report that
/// is otherwise 0 so far and has room for report_size().
void emit_records(std::span<const MembershipRecord> records, std::span<std::uint8_t> report);

}  // namespace rockhopper::stack
