// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "roce/wire/bytes.h"
#include "roce/wire/qpn.h"

namespace rockhopper::wire {

/// Extended reliable connection extended transport header (IBTA vol. 1, annex A14).
struct Xrceth {
  static constexpr std::size_t kSize = 4;

  std::uint8_t reserved8;  ///< kept as received
  Qpn xrc_srq;             ///< the shared receive queue that the request addresses

  [[nodiscard]] static constexpr Xrceth parse(std::span<const std::uint8_t, kSize> bytes) {
    return Xrceth{.reserved8 = bytes[0], .xrc_srq = Qpn{load_be24(&bytes[1])}};
  }
  constexpr void emit(std::span<std::uint8_t, kSize> bytes) const {
    bytes[0] = reserved8;
    store_be24(&bytes[1], xrc_srq.value);
  }
  friend constexpr bool operator==(const Xrceth&, const Xrceth&) = default;
};

}  // namespace rockhopper::wire
