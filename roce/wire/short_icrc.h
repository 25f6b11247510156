// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rockhopper::wire {

/// Packets of up to so many bytes can have their ICRC computed by short_icrc().
inline constexpr std::size_t kShortIcrcMax = 192;

/// Ones in the place of fields that do not count, zeros in all others.
using IcrcMask = std::array<std::uint8_t, kShortIcrcMax>;

/// The processor multiplies without carry.
extern const bool kHasShortIcrc;

/// Whether short_icrc() can be called for so many bytes. Packets whose length is no multiple of
/// four are not valid anyway.
[[nodiscard]] inline bool has_short_icrc(std::size_t length) {
  constexpr std::size_t kMin = 16;
  return length % 4 == 0 && length - kMin <= kShortIcrcMax - kMin && kHasShortIcrc;
}

/// Sizes by a quarter of them, 0 among them.
inline constexpr std::size_t kShortIcrcSizes = kShortIcrcMax / 4 + 1;

using ShortIcrc = std::uint32_t(const std::uint8_t* packet, const IcrcMask& mask, std::size_t size);
using ShortIcrcBehind = std::uint32_t(std::uint32_t begin, const std::uint8_t* transport,
                                      std::size_t size);

/// What short_icrc() and short_icrc_behind() call, by a quarter of the size: most short packets
/// have few sizes, and where a function knows the size it has neither loops nor branches.
extern const std::array<ShortIcrc*, kShortIcrcSizes> kShortIcrc;
extern const std::array<ShortIcrcBehind*, kShortIcrcSizes> kShortIcrcBehindIpv4;
extern const std::array<ShortIcrcBehind*, kShortIcrcSizes> kShortIcrcBehindIpv6;

/// The ICRC of the bytes of a packet from its IP header on, with ones where `mask` has them.
///
/// It keeps all in registers: a library's CRC wants the masked headers in memory, and takes longer
/// to begin and to end than all the rest of a small packet takes. Requires has_short_icrc().
[[nodiscard]] inline std::uint32_t short_icrc(std::span<const std::uint8_t> packet,
                                              const IcrcMask& mask) {
  assert(has_short_icrc(packet.size()));
  return kShortIcrc[packet.size() / 4](packet.data(), mask, packet.size());
}

/// The ICRC of a packet of a flow: `begin` is icrc_begin() of the flow's headers, and `transport`
/// all from the BTH on without the ICRC, with FECN, BECN and the reserved bits beside them 0. The
/// CRC is linear: what the lengths in the headers and the ones of the BTH add to it is known by the
/// length. It has a multiple of four bytes, at least a BTH and kShortIcrcMax at most; 16 bytes of
/// it and behind it may be read. Requires kHasShortIcrc.
[[nodiscard]] inline std::uint32_t short_icrc_behind(std::uint32_t begin, bool is_ipv6,
                                                     std::span<const std::uint8_t> transport) {
  assert(transport.size() % 4 == 0 && transport.size() >= 12 && transport.size() <= kShortIcrcMax);
  const auto& functions = is_ipv6 ? kShortIcrcBehindIpv6 : kShortIcrcBehindIpv4;
  return functions[transport.size() / 4](begin, transport.data(), transport.size());
}

}  // namespace rockhopper::wire
