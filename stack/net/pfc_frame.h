// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <rte_ether.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "stack/net/traffic_class.h"

namespace rockhopper::stack::net {

/// A priority-based flow control frame (IEEE 802.1Q, clause 36; 802.3, annex 31D): asks the
/// neighbour to send nothing in some priorities for a time.
struct PfcFrame {
  /// Bit times in which pause times are counted.
  static constexpr std::uint64_t kQuantumBits = 512;
  static constexpr std::uint16_t kQuantaMax = 0xffff;

  std::uint8_t priorities = 0;  ///< bit n: quanta[n] counts
  /// 0: go on at once.
  std::array<std::uint16_t, kPriorities> quanta{};
};

/// How long a pause of `quanta` lasts on a link of this rate.
[[nodiscard]] constexpr std::uint64_t pause_ns(std::uint16_t quanta, std::uint64_t bits_per_s) {
  return quanta * PfcFrame::kQuantumBits * 1'000'000'000 / bits_per_s;
}

/// Reads a packet to a group address.
[[nodiscard]] std::optional<PfcFrame> parse_group_pfc(const rte_mbuf* packet);

/// Returns nothing if the packet is no PFC frame. Nearly all packets are for one station: for those
/// it costs a look.
[[nodiscard]] inline std::optional<PfcFrame> parse_pfc(const rte_mbuf* packet) {
  const bool to_group =
      packet->data_len > 0 && (*rte_pktmbuf_mtod(packet, const std::uint8_t*) & 1) != 0;
  return to_group ? parse_group_pfc(packet) : std::nullopt;
}

/// A frame of 60 bytes; nullptr if the pool is empty.
[[nodiscard]] rte_mbuf* make_pfc(const PfcFrame& frame, const rte_ether_addr& source,
                                 rte_mempool* pool);

}  // namespace rockhopper::stack::net
