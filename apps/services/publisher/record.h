// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "apps/services/publisher/layout.h"

namespace rockhopper::publisher {

/// Why bytes are not the record that is looked for, or not all of it.
enum class RecordStatus : std::uint8_t {
  valid,
  truncated,       ///< there are fewer bytes than the record has
  wrong_position,  ///< a record of another round of the ring, or none
  wrong_epoch,
  wrong_sequence,
  wrong_length,  ///< more than a message of this store can have
  wrong_trailer,
  wrong_checksum,
};
inline constexpr std::size_t kRecordStatuses = 8;
[[nodiscard]] std::string_view to_string(RecordStatus status);

/// What a reader knows of a record before it has it.
struct ExpectedRecord {
  std::uint64_t position = 0;
  std::uint32_t epoch = 0;     ///< low bits of ControlBlock::epoch
  std::uint64_t sequence = 0;  ///< with `any_sequence`: or a later one
  bool any_sequence = false;
  std::uint32_t message_max = 0;  ///< bytes
};

/// A record of a ring as its reader sees it: a view of bytes that somebody else may have written
/// while they were copied (PB-20).
///
///     0 position  8 sequence  16 epoch  20 length  24 time  32 type  34 flags  36 CRC32C
///     40 payload ... zeros ... the last 8 bytes: the sequence number's complement
///
/// The CRC is over the first 36 bytes and the payload. What remains of the ring where a record does
/// not fit is a record with kFlagPad, of which there is the header only, or nothing at all where
/// there are fewer than kSizeMin bytes.
struct Record {
  static constexpr std::size_t kHeaderSize = 40;
  static constexpr std::size_t kTrailerSize = 8;
  static constexpr std::size_t kSizeMin = 64;  ///< of a message of 0 to 16 bytes
  static constexpr std::uint16_t kFlagPad = 1u << 0;

  std::uint64_t position = 0;
  std::uint64_t sequence = 0;  ///< of padding: the next message's
  std::uint32_t epoch = 0;
  std::uint64_t time_ns = 0;
  std::uint16_t type = 0;
  std::uint16_t flags = 0;
  std::span<const std::byte> payload;  ///< of padding: empty
  std::uint64_t size = 0;              ///< to the next record's position, bytes

  [[nodiscard]] bool is_padding() const { return (flags & kFlagPad) != 0; }
  [[nodiscard]] std::uint64_t end() const { return position + size; }

  struct Parsed;
  /// Looks at the beginning of `bytes` only. Nothing of `Parsed::record` has a meaning unless it is
  /// valid.
  [[nodiscard]] static Parsed parse(std::span<const std::byte> bytes,
                                    const ExpectedRecord& expected);
  /// Looks at a message's record that says itself where it belongs, and is all of `bytes` (PB-14).
  [[nodiscard]] static Parsed parse_copy(std::span<const std::byte> bytes, std::uint32_t epoch,
                                         std::uint32_t message_max);

  /// Bytes that a message takes in the ring.
  [[nodiscard]] static constexpr std::uint64_t size_of(std::uint64_t payload_bytes) {
    return (kHeaderSize + payload_bytes + kTrailerSize + kRecordAlignment - 1) / kRecordAlignment *
           kRecordAlignment;
  }
};
static_assert(Record::size_of(0) == Record::kSizeMin && Record::size_of(16) == Record::kSizeMin);

struct Record::Parsed {
  RecordStatus status = RecordStatus::truncated;
  Record record;
};

/// What a writer says of a record.
struct RecordHeader {
  std::uint64_t position = 0;
  std::uint64_t sequence = 0;
  std::uint32_t epoch = 0;
  std::uint64_t time_ns = 0;
  std::uint16_t type = 0;
};

/// Writes the record into Record::size_of(payload.size()) bytes from `to` on.
void emit_record(std::byte* to, const RecordHeader& header, std::span<const std::byte> payload);
/// What a record says of itself, as its writer may look at it.
struct RecordShape {
  std::uint64_t size = 0;  ///< to the next record's position, bytes
  bool is_padding = false;
};
[[nodiscard]] RecordShape shape_of(const std::byte* record);
[[nodiscard]] std::uint64_t sequence_of(const std::byte* record);
/// Seals a record that is valid under another epoch.
[[nodiscard]] RecordShape change_epoch(std::byte* record, std::uint32_t epoch);
/// Makes `bytes`, Record::kSizeMin or more, padding.
void emit_padding(std::span<std::byte> bytes, const RecordHeader& header);

/// CRC-32C (Castagnoli) of `bytes`, going on from `crc`; 0 to begin.
[[nodiscard]] std::uint32_t crc32c(std::uint32_t crc, std::span<const std::byte> bytes);

}  // namespace rockhopper::publisher
