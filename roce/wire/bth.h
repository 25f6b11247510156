// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "roce/wire/bytes.h"
#include "roce/wire/pkey.h"
#include "roce/wire/psn.h"
#include "roce/wire/qpn.h"

namespace rockhopper::wire {

/// Base transport header (IBTA vol. 1, 9.2; FECN and BECN: annex A10).
struct Bth {
  static constexpr std::size_t kSize = 12;

  std::uint8_t opcode = 0;  ///< see roce/wire/opcode.h
  bool solicited = false;
  bool mig_req = false;
  std::uint8_t pad_count = 0;  ///< 0 to 3 bytes between payload and ICRC
  std::uint8_t version = 0;    ///< transport header version, 4 bits, 0 in every release so far
  std::uint16_t pkey = kDefaultPkey;
  bool fecn = false;
  bool becn = false;
  std::uint8_t reserved6 = 0;  ///< 6 bits, kept as received
  Qpn destination{};
  bool ack_request = false;
  std::uint8_t reserved7 = 0;  ///< 7 bits, kept as received
  Psn psn{};

  // By words: later loads and stores of the whole header do not wait for those of its bytes.
  [[nodiscard]] static constexpr Bth parse(std::span<const std::uint8_t, kSize> bytes) {
    const std::uint32_t first = load_be32(&bytes[0]);
    const std::uint32_t second = load_be32(&bytes[4]);
    const std::uint32_t third = load_be32(&bytes[8]);
    return Bth{.opcode = static_cast<std::uint8_t>(first >> 24),
               .solicited = (first >> 23 & 1) != 0,
               .mig_req = (first >> 22 & 1) != 0,
               .pad_count = static_cast<std::uint8_t>(first >> 20 & 0x3),
               .version = static_cast<std::uint8_t>(first >> 16 & 0xf),
               .pkey = static_cast<std::uint16_t>(first),
               .fecn = second >> 31 != 0,
               .becn = (second >> 30 & 1) != 0,
               .reserved6 = static_cast<std::uint8_t>(second >> 24 & 0x3f),
               .destination = Qpn{second & kMask24},
               .ack_request = third >> 31 != 0,
               .reserved7 = static_cast<std::uint8_t>(third >> 24 & 0x7f),
               .psn = Psn{third & kMask24}};
  }

  /// Bits of a field beyond its width are dropped.
  constexpr void emit(std::span<std::uint8_t, kSize> bytes) const {
    store_be32(&bytes[0], std::uint32_t{opcode} << 24 | std::uint32_t{solicited} << 23 |
                              std::uint32_t{mig_req} << 22 | (pad_count & 0x3u) << 20 |
                              (version & 0xfu) << 16 | pkey);
    store_be32(&bytes[4], std::uint32_t{fecn} << 31 | std::uint32_t{becn} << 30 |
                              (reserved6 & 0x3fu) << 24 | (destination.value & kMask24));
    store_be32(&bytes[8], std::uint32_t{ack_request} << 31 | (reserved7 & 0x7fu) << 24 |
                              (psn.value & kMask24));
  }

  friend constexpr bool operator==(const Bth&, const Bth&) = default;
};

}  // namespace rockhopper::wire
