// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "roce/wire/bytes.h"

namespace rockhopper::wire {

/// What became of a lock request.
enum class LockStatus : std::uint8_t {
  granted = 1,
  waiting = 2,  ///< no answer yet, only a sign of life
  failed = 3,   ///< see LockCause
  released = 4,
  flushed = 5,  ///< not executed, as its scope had failed before
  canceled = 6,
};

/// Why a lock request failed.
enum class LockCause : std::uint8_t {
  none = 0,
  tries = 1,  ///< looked at the word as often as it might
  wait = 2,   ///< waited as long as it might
  canceled = 3,
  too_big = 4,    ///< more to keep than the target has room for
  not_owner = 5,  ///< releases what it does not hold
  expired = 6,    ///< the lease had ended, the target has released the lock
  too_late = 7,   ///< cancels what is granted, or not asked for
};

/// Lock acknowledge extended transport header: ours, of lock responses, opcode 0xDA (docs/wire.md).
struct Lkaeth {
  static constexpr std::size_t kSize = 24;

  LockStatus status;
  LockCause cause;
  std::uint16_t scope_id;
  std::uint32_t msn;            ///< 24 bits
  std::uint8_t reserved8;       ///< kept as received
  std::uint64_t previous_word;  ///< as it was found
  std::uint64_t value;  ///< granted, released: fencing token; waiting, failed: times looked at

  [[nodiscard]] static constexpr Lkaeth parse(std::span<const std::uint8_t, kSize> bytes) {
    return Lkaeth{.status = LockStatus{bytes[0]},
                  .cause = LockCause{bytes[1]},
                  .scope_id = load_be16(&bytes[2]),
                  .msn = load_be24(&bytes[4]),
                  .reserved8 = bytes[7],
                  .previous_word = load_be64(&bytes[8]),
                  .value = load_be64(&bytes[16])};
  }
  constexpr void emit(std::span<std::uint8_t, kSize> bytes) const {
    bytes[0] = static_cast<std::uint8_t>(status);
    bytes[1] = static_cast<std::uint8_t>(cause);
    store_be16(&bytes[2], scope_id);
    store_be24(&bytes[4], msn);
    bytes[7] = reserved8;
    store_be64(&bytes[8], previous_word);
    store_be64(&bytes[16], value);
  }
  friend constexpr bool operator==(const Lkaeth&, const Lkaeth&) = default;
};

}  // namespace rockhopper::wire
