// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "roce/wire/bytes.h"

namespace rockhopper::wire {

/// Every management datagram has this many bytes (IBTA vol. 1, 13.4.2).
inline constexpr std::size_t kMadBytes = 256;

/// The Q_Key of queue pair 1, at both ends (IBTA vol. 1, 10.2).
inline constexpr std::uint32_t kGsiQkey = 0x80010000;

/// Header that all management datagrams share (IBTA vol. 1, 13.4.3).
struct MadHeader {
  static constexpr std::size_t kSize = 24;
  static constexpr std::uint8_t kBaseVersion = 1;

  std::uint8_t base_version = kBaseVersion;
  std::uint8_t management_class = 0;
  std::uint8_t class_version = 0;
  std::uint8_t method = 0;  ///< the highest bit marks a response
  std::uint16_t status = 0;
  std::uint16_t class_specific = 0;
  std::uint64_t transaction_id = 0;
  std::uint16_t attribute_id = 0;
  std::uint16_t reserved16 = 0;  ///< kept as received
  std::uint32_t attribute_modifier = 0;

  [[nodiscard]] static constexpr MadHeader parse(std::span<const std::uint8_t, kSize> bytes) {
    return MadHeader{.base_version = bytes[0],
                     .management_class = bytes[1],
                     .class_version = bytes[2],
                     .method = bytes[3],
                     .status = load_be16(&bytes[4]),
                     .class_specific = load_be16(&bytes[6]),
                     .transaction_id = load_be64(&bytes[8]),
                     .attribute_id = load_be16(&bytes[16]),
                     .reserved16 = load_be16(&bytes[18]),
                     .attribute_modifier = load_be32(&bytes[20])};
  }
  constexpr void emit(std::span<std::uint8_t, kSize> bytes) const {
    bytes[0] = base_version;
    bytes[1] = management_class;
    bytes[2] = class_version;
    bytes[3] = method;
    store_be16(&bytes[4], status);
    store_be16(&bytes[6], class_specific);
    store_be64(&bytes[8], transaction_id);
    store_be16(&bytes[16], attribute_id);
    store_be16(&bytes[18], reserved16);
    store_be32(&bytes[20], attribute_modifier);
  }
  friend constexpr bool operator==(const MadHeader&, const MadHeader&) = default;
};

}  // namespace rockhopper::wire
