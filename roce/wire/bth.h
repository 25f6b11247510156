// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "roce/wire/bytes.h"
#include "roce/wire/psn.h"
#include "roce/wire/qpn.h"

namespace rockhopper::wire {

/// The partition key of RoCE: full member of the default partition.
inline constexpr std::uint16_t kDefaultPkey = 0xffff;

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

  [[nodiscard]] static constexpr Bth parse(std::span<const std::uint8_t, kSize> bytes) {
    return Bth{.opcode = bytes[0],
               .solicited = (bytes[1] & 0x80) != 0,
               .mig_req = (bytes[1] & 0x40) != 0,
               .pad_count = static_cast<std::uint8_t>((bytes[1] >> 4) & 0x3),
               .version = static_cast<std::uint8_t>(bytes[1] & 0xf),
               .pkey = load_be16(&bytes[2]),
               .fecn = (bytes[4] & 0x80) != 0,
               .becn = (bytes[4] & 0x40) != 0,
               .reserved6 = static_cast<std::uint8_t>(bytes[4] & 0x3f),
               .destination = Qpn{load_be24(&bytes[5])},
               .ack_request = (bytes[8] & 0x80) != 0,
               .reserved7 = static_cast<std::uint8_t>(bytes[8] & 0x7f),
               .psn = Psn{load_be24(&bytes[9])}};
  }

  /// Bits of a field beyond its width are dropped.
  constexpr void emit(std::span<std::uint8_t, kSize> bytes) const {
    bytes[0] = opcode;
    bytes[1] = static_cast<std::uint8_t>(unsigned{solicited} << 7 | unsigned{mig_req} << 6 |
                                         (pad_count & 0x3u) << 4 | (version & 0xfu));
    store_be16(&bytes[2], pkey);
    bytes[4] =
        static_cast<std::uint8_t>(unsigned{fecn} << 7 | unsigned{becn} << 6 | (reserved6 & 0x3fu));
    store_be24(&bytes[5], destination.value);
    bytes[8] = static_cast<std::uint8_t>(unsigned{ack_request} << 7 | (reserved7 & 0x7fu));
    store_be24(&bytes[9], psn.value);
  }

  friend constexpr bool operator==(const Bth&, const Bth&) = default;
};

}  // namespace rockhopper::wire
