// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::wire {

/// Full member of the default partition, which every RoCE port is.
inline constexpr std::uint16_t kDefaultPkey = 0xffff;

/// Bit of a partition key (P_Key) that tells full members of a partition from limited ones.
inline constexpr std::uint16_t kPkeyFullMember = 0x8000;

/// The lower 15 bits name the partition, of which 0 is none (IBTA vol. 1, 10.9.1.1).
[[nodiscard]] constexpr bool is_valid_pkey(std::uint16_t pkey) {
  return (pkey & ~kPkeyFullMember) != 0;
}

/// Returns whether a port that has `own` may take a packet that carries `received`: one partition,
/// and not two limited members (IBTA vol. 1, 10.9.3).
[[nodiscard]] constexpr bool pkeys_match(std::uint16_t own, std::uint16_t received) {
  if (own == received) [[likely]] {
    return own > kPkeyFullMember;  // two full members of the same
  }
  // Keys of one partition that differ are a full member's and a limited one's.
  return ((own ^ received) & ~kPkeyFullMember) == 0 && is_valid_pkey(own);
}

}  // namespace rockhopper::wire
