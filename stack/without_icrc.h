// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <rte_mbuf.h>

namespace rockhopper::stack {

/// A frame between two processes of one machine needs no ICRC, as the kernel leaves the checksums
/// of its loopback device out: the memory that carries it damages nothing. Where its sender has
/// left it out there are zeros in its place, and the mbuf has this flag, at the sender and at the
/// receiver. No device is ever given such a frame. Devices give the flag, which asks for the CRC of
/// an SCTP packet, to no frame that they receive.
inline constexpr std::uint64_t kWithoutIcrc = RTE_MBUF_F_TX_SCTP_CKSUM;

/// The sender has left the ICRC out.
[[nodiscard]] inline bool is_without_icrc(const rte_mbuf* packet) {
  return (packet->ol_flags & RTE_MBUF_F_TX_L4_MASK) == kWithoutIcrc;
}

/// Puts the right ICRC into such a frame, if it is one of RoCEv2, and takes the flag away.
using AddIcrc = void (*)(rte_mbuf* packet);

}  // namespace rockhopper::stack
