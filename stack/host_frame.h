// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <rte_mbuf.h>

#include "stack/ethernet.h"
#include "stack/ip_header.h"
#include "stack/udp_datagram.h"

namespace rockhopper::stack {

/// A frame on its way through the receiving side of a host.
struct HostFrame {
  static constexpr std::uint32_t kHeaderMax = kDatagramHeadersMax;

  rte_mbuf* packet;                       ///< null once a handler has taken it
  std::span<const std::uint8_t> headers;  ///< its first bytes, at most kHeaderMax
  EthernetHeader ethernet{};
  IpHeader ip{};

  [[nodiscard]] std::span<const std::uint8_t> l3_bytes() const {
    return headers.subspan(ethernet.length);
  }
  [[nodiscard]] std::uint32_t l3_length() const {
    return rte_pktmbuf_pkt_len(packet) - ethernet.length;
  }
  [[nodiscard]] std::uint16_t l4_offset() const {
    return static_cast<std::uint16_t>(ethernet.length + ip.length);
  }
};

}  // namespace rockhopper::stack
