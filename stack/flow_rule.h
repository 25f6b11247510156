// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "stack/error.h"

namespace rockhopper::stack {

/// UDP datagrams of one destination port, by some bits of one byte of their payload, into one
/// queue.
struct FlowRule {
  std::uint16_t udp_port = 0;
  std::uint16_t payload_offset = 0;  ///< of the byte
  std::uint8_t mask = 0;
  std::uint8_t value = 0;  ///< of the bits under the mask
  std::uint16_t queue = 0;
};

/// Has the device obey the rule, over IPv4 or over IPv6. `unsupported` if it cannot.
[[nodiscard]] Expected<void> create_flow(std::uint16_t port_id, const FlowRule& rule,
                                         bool over_ipv4);
/// Ends all rules of the port.
void flush_flows(std::uint16_t port_id);

}  // namespace rockhopper::stack
