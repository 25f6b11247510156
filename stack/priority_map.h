// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "stack/error.h"

namespace rockhopper::stack {

/// Priorities of IEEE 802.1Q, 0 to 7.
inline constexpr unsigned kPriorities = 8;

/// What a port takes a packet's priority from, as mlnx_qos --trust.
enum class Trust : std::uint8_t {
  pcp,   ///< the VLAN tag's priority code point; of what is sent, the service level
  dscp,  ///< the IP header's DSCP, by a table
};
[[nodiscard]] Expected<Trust> parse_trust(std::string_view text);

/// How a port finds the priority of packets, and with it queue and PFC class.
struct PriorityMap {
  static constexpr unsigned kDscps = 64;
  using Table = std::array<std::uint8_t, kDscps>;

  /// The upper three bits of the DSCP (class selectors, RFC 2474).
  [[nodiscard]] static constexpr Table class_selectors() {
    Table table{};
    for (unsigned dscp = 0; dscp < kDscps; ++dscp) {
      table[dscp] = static_cast<std::uint8_t>(dscp >> 3);
    }
    return table;
  }

  [[nodiscard]] constexpr std::uint8_t of_traffic_class(std::uint8_t traffic_class) const {
    return of_dscp[traffic_class >> 2];
  }

  Trust trust = Trust::pcp;
  Table of_dscp = class_selectors();
};

/// Changes entries of `table` as "26=3,46=5,8-15=1" says, each DSCP or range of them with its
/// priority; the rest stays (dcb app dscp-prio, mlnx_qos --dscp2prio).
[[nodiscard]] Expected<void> parse_dscp_priorities(std::string_view text,
                                                   PriorityMap::Table& table);

}  // namespace rockhopper::stack
