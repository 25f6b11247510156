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

/// Finds what computes the ICRC of so many bytes of a packet, from its IP header on, with ones
/// where `mask` has them.
///
/// It keeps all in registers: a library's CRC wants the masked headers in memory, and takes longer
/// to begin and to end than all the rest of a small packet takes. Requires has_short_icrc().
[[nodiscard]] inline ShortIcrc* short_icrc(std::size_t size) {
  assert(has_short_icrc(size));
  return kShortIcrc[size / 4];
}

/// Finds what computes the ICRC of packets of a flow that have so many bytes from the BTH on
/// without the ICRC: a multiple of four, at least a BTH and kShortIcrcMax at most. Requires
/// kHasShortIcrc.
///
/// Its `begin` is icrc_begin() of the flow's headers, and `transport` these bytes, with FECN, BECN
/// and the reserved bits beside them 0; 16 bytes of it and behind it may be read. The CRC is
/// linear: what the lengths in the headers and the ones of the BTH add to it is known by the
/// length.
[[nodiscard]] inline ShortIcrcBehind* short_icrc_behind(bool is_ipv6, std::size_t transport_size) {
  assert(transport_size % 4 == 0 && transport_size >= 12 && transport_size <= kShortIcrcMax);
  return (is_ipv6 ? kShortIcrcBehindIpv6 : kShortIcrcBehindIpv4)[transport_size / 4];
}

}  // namespace rockhopper::wire
