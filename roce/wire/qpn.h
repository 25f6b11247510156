// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <compare>
#include <cstdint>

#include "roce/wire/psn.h"

namespace rockhopper::wire {

/// A queue pair number: 24 bits (IBTA vol. 1, 9.2).
struct Qpn {
  std::uint32_t value = 0;  ///< 0 to 2^24 - 1

  /// Keeps the low 24 bits of `value`.
  [[nodiscard]] static constexpr Qpn make(std::uint32_t value) { return Qpn{value & kMask24}; }

  // clang-tidy 14 takes the 0 of a defaulted <=> for a pointer.
  // NOLINTNEXTLINE(modernize-use-nullptr)
  friend constexpr auto operator<=>(Qpn, Qpn) = default;
};

/// Numbers that standard queue pairs never get: they belong to the extensions (docs/wire.md).
inline constexpr Qpn kExtensionQpnFirst{0xD00000};
inline constexpr Qpn kExtensionQpnLast{0xDFFFFF};
[[nodiscard]] constexpr bool is_extension_qpn(Qpn number) {
  constexpr unsigned kBits = 20;  // one comparison: it is asked for with each packet
  static_assert((kExtensionQpnFirst.value ^ kExtensionQpnLast.value) == (1u << kBits) - 1);
  return number.value >> kBits == kExtensionQpnFirst.value >> kBits;
}

/// Queue pair 1, the general services interface: management datagrams, the connection manager.
inline constexpr Qpn kGsiQpn{1};
/// The destination of multicast datagrams.
inline constexpr Qpn kMulticastQpn{0xffffff};

}  // namespace rockhopper::wire
