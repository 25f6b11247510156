// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "roce/wire/bytes.h"
#include "roce/wire/qpn.h"

namespace rockhopper::wire {

/// Session header of the dynamically connected transport: ours (docs/wire.md). Says to which
/// connection a packet belongs.
struct Dcsh {
  static constexpr std::size_t kSize = 12;
  static constexpr std::uint8_t kStreamMax = 127;

  std::uint8_t form;    ///< 0: with a nonce; 1: with a session id
  std::uint8_t stream;  ///< of the initiator, 0 to kStreamMax
  Qpn source;           ///< number of the sending initiator or target
  std::uint64_t value;  ///< form 1: the session id; form 0: the nonce in the upper half

  [[nodiscard]] constexpr bool has_session() const { return form == 1; }
  [[nodiscard]] constexpr std::uint32_t nonce() const {
    return static_cast<std::uint32_t>(value >> 32);
  }
  [[nodiscard]] static constexpr std::uint64_t from_nonce(std::uint32_t nonce) {
    return std::uint64_t{nonce} << 32;
  }

  [[nodiscard]] static constexpr Dcsh parse(std::span<const std::uint8_t, kSize> bytes) {
    return Dcsh{.form = static_cast<std::uint8_t>(bytes[0] >> 7),
                .stream = static_cast<std::uint8_t>(bytes[0] & 0x7f),
                .source = Qpn{load_be24(&bytes[1])},
                .value = load_be64(&bytes[4])};
  }
  constexpr void emit(std::span<std::uint8_t, kSize> bytes) const {
    bytes[0] = static_cast<std::uint8_t>(form << 7 | (stream & 0x7f));
    store_be24(&bytes[1], source.value);
    store_be64(&bytes[4], value);
  }
  friend constexpr bool operator==(const Dcsh&, const Dcsh&) = default;
};

}  // namespace rockhopper::wire
