// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rockhopper::wire {

// How the ICRC of an IPv4 packet depends on the identification, which it covers: for packets of
// which a socket has kept the IP header, or will write it. Packets of up to 64 KiB; of those to be
// changed, without options.

/// What all packets of so many bytes, from the IP header through the ICRC, have in common.
[[nodiscard]] std::uint32_t identification_factor(std::size_t length);

/// The exclusive or of the ICRCs, as load_icrc() has them, of two such packets that differ in this:
/// the identification of one is 0.
[[nodiscard]] std::uint32_t identification_change(std::uint32_t factor,
                                                  std::uint16_t identification);

/// The identification with which the ICRC is right, if there is one that is not 0, else 0. `packet`
/// has all bytes from the IP header through the ICRC, and an identification of 0; `factor` is that
/// of its length, and not used if `likely` is 0. That it is `likely` is found out soonest.
///
/// A packet whose bytes have changed passes for one with another identification in one of 65,536
/// cases.
[[nodiscard]] std::uint16_t find_identification(std::span<const std::uint8_t> packet,
                                                std::uint32_t factor, std::uint16_t likely);

}  // namespace rockhopper::wire
