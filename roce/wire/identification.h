// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <span>

namespace rockhopper::wire {

/// The identification with which the ICRC of an IPv4 packet is right, if there is one that is not
/// 0, else 0. `packet` has all bytes from the IP header through the ICRC, and an identification of
/// 0. For packets of which a socket has kept the IP header: their ICRC covers it.
///
/// A packet whose bytes have changed passes for one with another identification in one of 65,536
/// cases.
[[nodiscard]] std::uint16_t identification_of(std::span<const std::uint8_t> packet);

}  // namespace rockhopper::wire
