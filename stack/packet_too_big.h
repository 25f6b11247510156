// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stack/host_counters.h"
#include "stack/ip_address.h"

namespace rockhopper::stack {

/// A router's complaint that a datagram did not fit its next link: ICMP "fragmentation needed" (RFC
/// 792, RFC 1191) or ICMPv6 "packet too big" (RFC 4443, section 3.2), with what it quotes of the
/// datagram. Anybody can send one.
struct PacketTooBig {
  std::uint32_t mtu = 0;  ///< bytes of the longest IP packet that fits; 0: an old router, not told
  IpAddress source;       ///< this and what follows: the datagram's
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint32_t length = 0;  ///< bytes of the whole IP packet
};

/// As much of a message as parse_packet_too_big() reads.
inline constexpr std::size_t kPacketTooBigMax = 8 + 40 + 8;

/// Reads the message `bytes`, type and checksum of which have been verified, and of which what is
/// beyond kPacketTooBigMax is not needed. Returns HostDrop::none if it quotes a UDP datagram such
/// as Host sends, with an MTU that it does not fit (RFC 5927, section 7.2; RFC 8201, section 4).
[[nodiscard]] HostDrop parse_packet_too_big(std::span<const std::uint8_t> bytes, bool ipv4,
                                            PacketTooBig& message);

}  // namespace rockhopper::stack
