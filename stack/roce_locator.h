// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>

#include <rte_mbuf.h>

namespace rockhopper::stack {

// All that this layer knows of RoCEv2, for those who impair or show the packets of a link.

/// The UDP destination port of RoCEv2 (IBTA vol. 1, annex A17.3.2).
inline constexpr std::uint16_t kRoceUdpPort = 4791;

/// What a base transport header says that tells packets apart (IBTA vol. 1, 9.2).
struct BthSummary {
  std::uint8_t opcode;
  std::uint32_t destination_qpn;  ///< 24 bits
  std::uint32_t psn;              ///< 24 bits
  friend bool operator==(const BthSummary&, const BthSummary&) = default;
};

/// Says which packets to one queue pair have PSNs that follow each other as long as none is sent
/// again: 0 for requests and 1 for responses of connections, nothing for datagrams and others.
[[nodiscard]] std::optional<std::uint32_t> psn_sequence(const BthSummary& bth);

/// Returns the offset in `frame` of what follows its UDP header, if that is one of RoCEv2: over
/// IPv4 or IPv6, with a VLAN tag or without, in any segments. Checks no more than it needs to find
/// it. The frame may end there. Nothing of a fragment but the first.
[[nodiscard]] std::optional<std::uint32_t> find_bth(const rte_mbuf* frame);

/// Reads the BTH of `frame`; nothing if it is no RoCEv2 packet or ends before.
[[nodiscard]] std::optional<BthSummary> read_bth(const rte_mbuf* frame);
/// The same of a packet whose BTH is known to be at that offset.
[[nodiscard]] std::optional<BthSummary> read_bth(const rte_mbuf* frame, std::uint32_t offset);

}  // namespace rockhopper::stack
