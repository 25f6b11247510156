// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

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

}  // namespace rockhopper::stack
