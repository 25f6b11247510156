// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "roce/wire/bytes.h"
#include "roce/wire/short_icrc.h"

namespace rockhopper::wire {

/// The invariant CRC of a RoCEv2 packet (IBTA vol. 1, annex A17.3.3), computed over any number of
/// consecutive pieces:
///
///     Icrc icrc;
///     icrc.add_ip_udp_bth(l3);      // IP header, UDP header, BTH
///     icrc.add(extension_headers);  // then all bytes up to the ICRC, padding included
///     icrc.add(payload);
///     store_icrc(icrc.value(), trailer);
///
/// It is CRC-32 with zlib's conventions over eight bytes of ones, then the packet from its IP
/// header on, with ones in the place of the fields that routers and switches may change.
class Icrc {
 public:
  static constexpr std::size_t kSize = 4;

  explicit Icrc() = default;

  /// Adds bytes as they are.
  void add(std::span<const std::uint8_t> bytes);

  /// Adds bytes as they are, and copies them to `to`, which has room for them and is elsewhere. It
  /// takes little longer than add(), and adds what it copied also while `from` changes.
  void add_copied(std::span<const std::uint8_t> from, std::uint8_t* to);

  /// Adds the contiguous bytes from the IP header through the 12th byte of the BTH. IPv4 may carry
  /// options and IPv6 extension headers, kL3Max bytes in all. Masked are, in a copy: the type of
  /// service or traffic class, the time to live or hop limit, the IPv4 header checksum, the IPv6
  /// flow label, the UDP checksum, and BTH byte 4 (FECN, BECN, six reserved bits).
  /// A span that cannot be such a sequence (too short, too long, unknown version) is safe, and is
  /// added unmasked: the value then matches no packet.
  void add_ip_udp_bth(std::span<const std::uint8_t> l3) { add_packet(l3, l3.size()); }

  /// As add_ip_udp_bth(bytes.first(l3_length)) and add() of the bytes behind them; small packets
  /// cost one computation instead of two. Requires l3_length <= bytes.size().
  void add_packet(std::span<const std::uint8_t> bytes, std::size_t l3_length);

  /// The ICRC of all bytes added so far.
  [[nodiscard]] std::uint32_t value() const { return crc_; }

  /// The longest IPv4 header, a UDP header, a BTH.
  static constexpr std::size_t kL3Max = 60 + 8 + 12;

 private:
  static constexpr std::uint32_t kInitial = 0x2144df1c;  ///< the CRC-32 of the eight bytes of ones

  /// Adds the first bytes of a packet by a copy with ones in it. `mask`: null where it has to be
  /// found out where they go.
  void add_copy(std::span<const std::uint8_t> head, std::size_t l3_length, const IcrcMask* mask);

  std::uint32_t crc_ = kInitial;
};

/// The masks of packets without IP options or extension headers.
extern const IcrcMask kIpv4IcrcMask;
extern const IcrcMask kIpv6IcrcMask;

/// What short_icrc() masks in a packet whose IP header begins with the byte `first`, `l3_length` as
/// in Icrc::add_packet(); null where the headers have options, or are none.
[[nodiscard]] const IcrcMask* icrc_mask(std::uint8_t first, std::size_t l3_length);

/// What short_icrc_behind() begins with, of the IP and UDP headers of a flow without options, whose
/// lengths are 0. Requires such headers.
[[nodiscard]] std::uint32_t icrc_begin(std::span<const std::uint8_t> ip_udp);

/// The ICRC of a packet given as its `l3` bytes (see Icrc::add_ip_udp_bth) and consecutive pieces.
template <typename... Spans>
[[nodiscard]] std::uint32_t icrc_over(std::span<const std::uint8_t> l3, const Spans&... rest) {
  Icrc icrc;
  icrc.add_ip_udp_bth(l3);
  (icrc.add(std::span<const std::uint8_t>(rest)), ...);
  return icrc.value();
}

/// The ICRC is the one field of RoCEv2 that travels least significant byte first.
constexpr void store_icrc(std::uint32_t icrc, std::span<std::uint8_t, Icrc::kSize> trailer) {
  store_be32(trailer.data(), __builtin_bswap32(icrc));
}

[[nodiscard]] constexpr std::uint32_t load_icrc(
    std::span<const std::uint8_t, Icrc::kSize> trailer) {
  return __builtin_bswap32(load_be32(trailer.data()));
}

}  // namespace rockhopper::wire
