// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>

/// Timer codes of queue pair attributes and headers, in nanoseconds.
namespace rockhopper::wire {

/// RNR NAK timer field (IBTA vol. 1, 9.7.5.2.8). Of `code` only the low five bits count. Code 0 is
/// the longest wait, 655.36 ms.
[[nodiscard]] constexpr std::uint64_t rnr_timer_ns(std::uint8_t code) {
  // In units of 10 us.
  constexpr std::array<std::uint16_t, 32> kTenMicroseconds = {
      65535, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  constexpr std::uint64_t kUnitNs = 10'000;
  code &= 0x1f;
  return code == 0 ? 65536 * kUnitNs : kTenMicroseconds[code] * kUnitNs;
}

/// Local ACK timeout field of a queue pair (IBTA vol. 1, 9.7.6.1.3): 4.096 us * 2^code, where 0
/// disables the timer and is returned as 0. Of `code` only the low five bits count.
[[nodiscard]] constexpr std::uint64_t local_ack_timeout_ns(std::uint8_t code) {
  code &= 0x1f;
  return code == 0 ? 0 : std::uint64_t{4096} << code;
}

}  // namespace rockhopper::wire
