// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "roce/wire/bytes.h"
#include "roce/wire/psn.h"

namespace rockhopper::wire {

enum class AethKind : std::uint8_t { ack, rnr_nak, reserved, nak };

/// IBTA vol. 1, 9.7.5.2.
enum class NakCode : std::uint8_t {
  psn_sequence_error = 0,
  invalid_request = 1,
  remote_access_error = 2,
  remote_operational_error = 3,
  invalid_rd_request = 4,
};

/// Credit code of a responder that grants no end-to-end credits: the requester is not limited.
inline constexpr std::uint8_t kCreditCodeUnlimited = 31;

/// ACK extended transport header (IBTA vol. 1, 9.3 and 9.7.5).
struct Aeth {
  static constexpr std::size_t kSize = 4;

  std::uint8_t syndrome;
  std::uint32_t msn;  ///< message sequence number, 24 bits

  /// `credit_code` 0 to 31 as from credit_code(); 31 is kCreditCodeUnlimited.
  [[nodiscard]] static constexpr Aeth ack(std::uint8_t credit_code, std::uint32_t msn) {
    return make(AethKind::ack, credit_code, msn);
  }
  /// `timer_code` 0 to 31, see rnr_timer_ns().
  [[nodiscard]] static constexpr Aeth rnr_nak(std::uint8_t timer_code, std::uint32_t msn) {
    return make(AethKind::rnr_nak, timer_code, msn);
  }
  [[nodiscard]] static constexpr Aeth nak(NakCode code, std::uint32_t msn) {
    return make(AethKind::nak, static_cast<std::uint8_t>(code), msn);
  }

  /// A syndrome with bit 7 set is `reserved`, whatever the other bits say.
  [[nodiscard]] constexpr AethKind kind() const {
    return (syndrome & 0x80) != 0 ? AethKind::reserved
                                  : static_cast<AethKind>((syndrome >> 5) & 0x3);
  }
  /// Credit code of an ACK, 0 to 31.
  [[nodiscard]] constexpr std::uint8_t credit() const { return syndrome & 0x1f; }
  /// Timer code of an RNR NAK, 0 to 31.
  [[nodiscard]] constexpr std::uint8_t timer() const { return syndrome & 0x1f; }
  /// Code of a NAK; values above those named in NakCode are reserved and returned as they are.
  [[nodiscard]] constexpr NakCode nak_code() const { return static_cast<NakCode>(syndrome & 0x1f); }

  [[nodiscard]] static constexpr Aeth parse(std::span<const std::uint8_t, kSize> bytes) {
    const std::uint32_t word = load_be32(bytes.data());
    return Aeth{.syndrome = static_cast<std::uint8_t>(word >> 24), .msn = word & kMask24};
  }
  constexpr void emit(std::span<std::uint8_t, kSize> bytes) const {
    store_be32(bytes.data(), std::uint32_t{syndrome} << 24 | (msn & kMask24));
  }
  friend constexpr bool operator==(const Aeth&, const Aeth&) = default;

 private:
  [[nodiscard]] static constexpr Aeth make(AethKind kind, std::uint8_t value, std::uint32_t msn) {
    return Aeth{
        .syndrome = static_cast<std::uint8_t>(static_cast<unsigned>(kind) << 5 | (value & 0x1fu)),
        .msn = msn & kMask24};
  }
};

/// Receive credits that credit code 0 to 30 stands for (IBTA vol. 1, 9.7.7.2); nothing for 31
/// and above: no limit.
[[nodiscard]] constexpr std::optional<std::uint32_t> credit_count(std::uint8_t code) {
  if (code >= kCreditCodeUnlimited) return std::nullopt;
  if (code < 2) return code;
  // Two codes an octave: 2^(n/2) and 1.5 * 2^(n/2); 2, 3, 4, 6, 8, 12, ... 32768.
  return (code % 2 == 0 ? 2u : 3u) << (code / 2 - 1);
}

/// The largest code, 0 to 30, whose count does not exceed `count`.
[[nodiscard]] constexpr std::uint8_t credit_code(std::uint32_t count) {
  if (count < 2) return static_cast<std::uint8_t>(count);
  // The octave, and whether it is its upper half.
  const auto octave = static_cast<std::uint32_t>(std::bit_width(count)) - 1;
  const std::uint32_t code = 2 * octave + (count >> (octave - 1) & 1);
  return static_cast<std::uint8_t>(std::min(code, kCreditCodeUnlimited - 1u));
}

}  // namespace rockhopper::wire
