// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "roce/wire/bytes.h"

namespace rockhopper::wire {

/// Lock extended transport header: ours, of lock requests, opcode 0xD9 (docs/wire.md).
struct Lketh {
  static constexpr std::size_t kSize = 40;

  /// Values of `subtype`.
  static constexpr std::uint8_t kAcquireExclusive = 1;
  static constexpr std::uint8_t kAcquireShared = 2;
  static constexpr std::uint8_t kRelease = 3;
  static constexpr std::uint8_t kCancel = 5;
  static constexpr std::uint8_t kAcquireSeveral = 6;  ///< payload: LockWord entries
  static constexpr std::uint8_t kAcquireForeign = 7;  ///< payload: a LockOperation
  static constexpr std::uint8_t kReleaseForeign = 8;  ///< likewise

  /// Bits of `flags`.
  static constexpr std::uint8_t kStoreForward = 1 << 0;  ///< begin when the release is there
  static constexpr std::uint8_t kFifo = 1 << 1;          ///< wait behind those that came before
  static constexpr std::uint8_t kResend = 1 << 2;        ///< do not wait there: RNR NAK
  /// A foreign operation adds, and `mask` has the highest bit of each field; else it swaps.
  static constexpr std::uint8_t kAdd = 1 << 3;

  static constexpr std::uint16_t kTriesUnlimited = 0xffff;
  static constexpr std::uint32_t kWaitUnlimited = 0xffffffff;

  std::uint8_t subtype;
  std::uint8_t flags;
  std::uint16_t scope_id;
  std::uint32_t rkey;
  std::uint64_t va;          ///< of the lock word
  std::uint16_t max_tries;   ///< times that the word is looked at; kTriesUnlimited
  std::uint8_t timeout;      ///< code of the requester's local ACK timeout; 0: none
  std::uint8_t reserved8;    ///< kept as received
  std::uint32_t wait_us;     ///< kWaitUnlimited
  std::uint32_t owner;       ///< 16 bits: what the word is to say of its owner
  std::uint32_t lease_us;    ///< asked for; 0: what the target gives
  std::uint16_t scope_psns;  ///< behind this one, the last is the release's; 0: no scope follows
  std::uint16_t reserved16;  ///< kept as received
  std::uint32_t reserved32;  ///< kept as received

  [[nodiscard]] constexpr bool is_acquire() const {
    return subtype == kAcquireExclusive || subtype == kAcquireShared ||
           subtype == kAcquireSeveral || subtype == kAcquireForeign;
  }
  [[nodiscard]] constexpr bool is_release() const {
    return subtype == kRelease || subtype == kReleaseForeign;
  }
  /// An acquire: its lock is not to be looked at before its whole scope is there.
  [[nodiscard]] constexpr bool is_stored() const {
    return (flags & kStoreForward) != 0 && (flags & kResend) == 0 && scope_psns != 0;
  }

  [[nodiscard]] static constexpr Lketh parse(std::span<const std::uint8_t, kSize> bytes) {
    return Lketh{.subtype = bytes[0],
                 .flags = bytes[1],
                 .scope_id = load_be16(&bytes[2]),
                 .rkey = load_be32(&bytes[4]),
                 .va = load_be64(&bytes[8]),
                 .max_tries = load_be16(&bytes[16]),
                 .timeout = bytes[18],
                 .reserved8 = bytes[19],
                 .wait_us = load_be32(&bytes[20]),
                 .owner = load_be32(&bytes[24]),
                 .lease_us = load_be32(&bytes[28]),
                 .scope_psns = load_be16(&bytes[32]),
                 .reserved16 = load_be16(&bytes[34]),
                 .reserved32 = load_be32(&bytes[36])};
  }
  constexpr void emit(std::span<std::uint8_t, kSize> bytes) const {
    bytes[0] = subtype;
    bytes[1] = flags;
    store_be16(&bytes[2], scope_id);
    store_be32(&bytes[4], rkey);
    store_be64(&bytes[8], va);
    store_be16(&bytes[16], max_tries);
    bytes[18] = timeout;
    bytes[19] = reserved8;
    store_be32(&bytes[20], wait_us);
    store_be32(&bytes[24], owner);
    store_be32(&bytes[28], lease_us);
    store_be16(&bytes[32], scope_psns);
    store_be16(&bytes[34], reserved16);
    store_be32(&bytes[36], reserved32);
  }
  friend constexpr bool operator==(const Lketh&, const Lketh&) = default;
};

/// One of the words behind the first that a kAcquireSeveral names.
struct LockWord {
  static constexpr std::size_t kSize = 16;

  std::uint32_t rkey;
  bool shared;
  std::uint64_t va;

  [[nodiscard]] static constexpr LockWord parse(std::span<const std::uint8_t, kSize> bytes) {
    return LockWord{
        .rkey = load_be32(&bytes[0]), .shared = bytes[4] != 0, .va = load_be64(&bytes[8])};
  }
  constexpr void emit(std::span<std::uint8_t, kSize> bytes) const {
    store_be32(&bytes[0], rkey);
    store_be32(&bytes[4], shared ? 1u << 24 : 0);
    store_be64(&bytes[8], va);
  }
  friend constexpr bool operator==(const LockWord&, const LockWord&) = default;
};

/// A conditional read-modify-write of a word whose layout only the requester knows: where all bits
/// of `compare_mask` are those of `compare`, `swap_add` is swapped in, or added, under `mask`.
struct LockOperation {
  static constexpr std::size_t kSize = 32;

  std::uint64_t compare;
  std::uint64_t compare_mask;
  std::uint64_t swap_add;
  std::uint64_t mask;

  [[nodiscard]] static constexpr LockOperation parse(std::span<const std::uint8_t, kSize> bytes) {
    return LockOperation{.compare = load_be64(&bytes[0]),
                         .compare_mask = load_be64(&bytes[8]),
                         .swap_add = load_be64(&bytes[16]),
                         .mask = load_be64(&bytes[24])};
  }
  constexpr void emit(std::span<std::uint8_t, kSize> bytes) const {
    store_be64(&bytes[0], compare);
    store_be64(&bytes[8], compare_mask);
    store_be64(&bytes[16], swap_add);
    store_be64(&bytes[24], mask);
  }
  friend constexpr bool operator==(const LockOperation&, const LockOperation&) = default;
};

}  // namespace rockhopper::wire
