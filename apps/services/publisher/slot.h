// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "apps/services/publisher/layout.h"

namespace rockhopper::publisher {

/// A slot of a conflated store as its reader sees it: a view of bytes that may have been written
/// while they were copied.
///
///     0 version  8 key  16 change  24 time  32 epoch  36 length  40 type  42 zeros  44 CRC32C
///     48 payload
///
/// The version is odd while the slot is written, and 0 of one that has never been. The CRC is over
/// the bytes from 8 to 44 and the payload.
struct Slot {
  static constexpr std::size_t kHeaderSize = 48;
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::uint32_t kPayloadMax = 1u << 20;

  enum class Status : std::uint8_t { valid, empty, being_written, wrong };

  std::uint64_t version = 0;
  std::uint64_t key = 0;
  std::uint64_t change = 0;  ///< its number among all of the store
  std::uint64_t time_ns = 0;
  std::uint32_t epoch = 0;
  std::uint16_t type = 0;
  std::span<const std::byte> payload;

  struct Parsed;
  /// `bytes` are a whole slot.
  [[nodiscard]] static Parsed parse(std::span<const std::byte> bytes, std::uint32_t epoch,
                                    std::uint32_t message_max);
  [[nodiscard]] static constexpr std::uint64_t size_of(std::uint64_t message_max) {
    return (kHeaderSize + message_max + kAlignment - 1) / kAlignment * kAlignment;
  }
};

struct Slot::Parsed {
  Status status = Status::wrong;
  Slot slot;
};

/// Writes all but the version.
void emit_slot(std::byte* to, const Slot& slot, std::span<const std::byte> payload);

}  // namespace rockhopper::publisher
