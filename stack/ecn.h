// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::stack {

/// The ECN field, the two low bits of a traffic class, and its values (RFC 3168, section 5).
inline constexpr std::uint8_t kEcnMask = 3;
inline constexpr std::uint8_t kEcnEct0 = 2;  ///< ECN-capable transport
inline constexpr std::uint8_t kEcnCe = 3;    ///< congestion experienced

}  // namespace rockhopper::stack
