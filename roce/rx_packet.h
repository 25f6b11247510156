// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/payload.h"
#include "roce/wire/packet.h"

namespace rockhopper::roce {

/// A received packet of a queue pair: ICRC, framing, service and addresses have been checked.
struct RxPacket {
  const wire::Headers& headers;
  MbufBytes payload;
  std::uint32_t l3_offset;  ///< of the IP header from the start of the frame

  /// The payload's length fits the packet's place in its message: full but for the last packet,
  /// which is not empty behind others (IBTA vol. 1, 9.7.4.1.6 and 9.8.2.2).
  [[nodiscard]] bool length_fits(std::uint32_t mtu) const {
    if (!headers.opcode->ends()) return payload.length == mtu;
    return payload.length <= mtu && (payload.length > 0 || headers.opcode->starts());
  }

  /// Whether its IP header is one of IPv6.
  [[nodiscard]] bool is_ipv6() const {
    std::byte first{};
    copy_from_mbuf({payload.packet, l3_offset, 1}, &first);
    return (first >> 4) == std::byte{6};
  }
};

}  // namespace rockhopper::roce
