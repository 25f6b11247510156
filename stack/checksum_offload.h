// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <rte_ip.h>
#include <rte_mbuf.h>

namespace rockhopper::stack {

// A driver's NONE means: verified, although the packet holds no checksum (a local sender left it
// out). Its BAD is not believed: it costs little to look.

/// The device has verified the IPv4 header checksum.
[[nodiscard]] inline bool ip_checksum_verified(const rte_mbuf* packet) {
  const std::uint64_t flags = packet->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK;
  return flags == RTE_MBUF_F_RX_IP_CKSUM_GOOD || flags == RTE_MBUF_F_RX_IP_CKSUM_NONE;
}

/// The device has verified the UDP checksum.
[[nodiscard]] inline bool l4_checksum_verified(const rte_mbuf* packet) {
  const std::uint64_t flags = packet->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
  return flags == RTE_MBUF_F_RX_L4_CKSUM_GOOD || flags == RTE_MBUF_F_RX_L4_CKSUM_NONE;
}

/// Does what the device would do for a packet marked RTE_MBUF_F_TX_IP_CKSUM, in `frame`, which
/// holds the first `length` bytes of `packet` or of a copy: for code that looks at packets before
/// it does.
inline void fill_offloaded_checksum(const rte_mbuf* packet, std::uint8_t* frame,
                                    std::uint32_t length) {
  const std::uint32_t l2_length = packet->l2_len;
  const std::uint32_t l3_length = packet->l3_len;
  if ((packet->ol_flags & RTE_MBUF_F_TX_IP_CKSUM) == 0 || l3_length < sizeof(rte_ipv4_hdr) ||
      l2_length + l3_length > length) {
    return;
  }
  auto* header = reinterpret_cast<rte_ipv4_hdr*>(frame + l2_length);
  header->hdr_checksum = 0;
  const auto sum = static_cast<std::uint16_t>(~rte_raw_cksum(header, l3_length));
  header->hdr_checksum = sum;
}

}  // namespace rockhopper::stack
