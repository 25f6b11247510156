// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/record.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <isa-l/crc.h>
#include <rte_hash_crc.h>

#include "roce/wire/wide_vectors.h"

namespace rockhopper::publisher {
namespace {

constexpr std::size_t kPosition = 0;
constexpr std::size_t kSequence = 8;
constexpr std::size_t kEpoch = 16;
constexpr std::size_t kLength = 20;
constexpr std::size_t kTime = 24;
constexpr std::size_t kType = 32;
constexpr std::size_t kFlags = 34;
constexpr std::size_t kChecksum = 36;
static_assert(kChecksum + 4 == Record::kHeaderSize);

/// Up to so many bytes the processor's instruction for each 8 takes less time than what ISA-L
/// prepares for long ones.
constexpr std::size_t kShortBytes = 128;

/// Of the register as it is, without the inversions before and after.
std::uint32_t crc32c_of_short(std::uint32_t value, std::span<const std::byte> bytes) {
  const std::byte* data = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, data += 8) {
    value = rte_hash_crc_8byte(load_le<std::uint64_t>(data), value);
  }
  if ((left & 4) != 0) {
    value = rte_hash_crc_4byte(load_le<std::uint32_t>(data), value);
    data += 4;
  }
  for (left &= 3; left > 0; --left, ++data) {
    value = rte_hash_crc_1byte(static_cast<std::uint8_t>(*data), value);
  }
  return value;
}

void emit_header(std::byte* to, const RecordHeader& header, std::uint32_t length,
                 std::uint16_t flags, std::span<const std::byte> payload) {
  store_le(to + kPosition, header.position);
  store_le(to + kSequence, header.sequence);
  store_le(to + kEpoch, header.epoch);
  store_le(to + kLength, length);
  store_le(to + kTime, header.time_ns);
  store_le(to + kType, header.type);
  store_le(to + kFlags, flags);
  store_le(to + kChecksum, crc32c(crc32c(0, {to, kChecksum}), payload));
}

}  // namespace

std::string_view to_string(RecordStatus status) {
  static constexpr std::array<std::string_view, kRecordStatuses> kNames{
      "valid",          "truncated",    "wrong position", "wrong epoch",
      "wrong sequence", "wrong length", "wrong trailer",  "wrong checksum"};
  const auto index = static_cast<std::size_t>(status);
  return index < kNames.size() ? kNames[index] : "?";
}

std::uint32_t crc32c(std::uint32_t crc, std::span<const std::byte> bytes) {
  if (bytes.size() <= kShortBytes) return ~crc32c_of_short(~crc, bytes);
  // The library counts in int; its argument is not const, but only read.
  auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
  std::size_t left = bytes.size();
  std::uint32_t value = ~crc;
  while (left > 0) {
    const auto part = static_cast<int>(std::min<std::size_t>(left, 1u << 30));
    value = crc32_iscsi(data, part, value);
    data += part;
    left -= static_cast<std::size_t>(part);
  }
  wire::leave_wide_vectors();
  return ~value;
}

namespace {

/// Fills the caller's record in place, as a copy of what has just been written in other pieces
/// would have to wait for them.
RecordStatus read_record(std::span<const std::byte> bytes, const ExpectedRecord& expected,
                         Record& record) {
  if (bytes.size() < Record::kHeaderSize) return RecordStatus::truncated;
  const std::byte* p = bytes.data();
  record.position = load_le<std::uint64_t>(p + kPosition);
  record.sequence = load_le<std::uint64_t>(p + kSequence);
  record.epoch = load_le<std::uint32_t>(p + kEpoch);
  record.time_ns = load_le<std::uint64_t>(p + kTime);
  record.type = load_le<std::uint16_t>(p + kType);
  record.flags = load_le<std::uint16_t>(p + kFlags);
  const auto length = load_le<std::uint32_t>(p + kLength);
  if (record.position != expected.position) return RecordStatus::wrong_position;
  if (record.epoch != expected.epoch) return RecordStatus::wrong_epoch;
  if (expected.any_sequence ? record.sequence < expected.sequence
                            : record.sequence != expected.sequence) {
    return RecordStatus::wrong_sequence;
  }
  // Padding is where the longest message's record had no room.
  const std::uint64_t size = Record::size_of(length);
  if (record.is_padding() ? size >= Record::size_of(expected.message_max)
                          : length > expected.message_max) {
    return RecordStatus::wrong_length;
  }
  if (!record.is_padding()) {
    if (size > bytes.size()) return RecordStatus::truncated;
    if (load_le<std::uint64_t>(p + size - Record::kTrailerSize) != ~record.sequence) {
      return RecordStatus::wrong_trailer;
    }
    record.payload = bytes.subspan(Record::kHeaderSize, length);
  }
  if (load_le<std::uint32_t>(p + kChecksum) !=
      crc32c(crc32c(0, bytes.first(kChecksum)), record.payload)) {
    return RecordStatus::wrong_checksum;
  }
  record.size = size;
  return RecordStatus::valid;
}

}  // namespace

Record::Parsed Record::parse(std::span<const std::byte> bytes, const ExpectedRecord& expected) {
  Parsed parsed;
  parsed.status = read_record(bytes, expected, parsed.record);
  return parsed;
}

Record::Parsed Record::parse_copy(std::span<const std::byte> bytes, std::uint32_t epoch,
                                  std::uint32_t message_max) {
  if (bytes.size() < kSizeMin) return {RecordStatus::truncated, {}};
  const auto position = load_le<std::uint64_t>(bytes.data() + kPosition);
  // So far that sums of positions cannot wrap.
  if (position % kRecordAlignment != 0 || position > UINT64_MAX / 2) {
    return {RecordStatus::wrong_position, {}};
  }
  const Parsed parsed = parse(bytes, {.position = position,
                                      .epoch = epoch,
                                      .sequence = 0,
                                      .any_sequence = true,
                                      .message_max = message_max});
  if (parsed.status != RecordStatus::valid) return parsed;
  if (parsed.record.is_padding() || parsed.record.size != bytes.size()) {
    return {RecordStatus::wrong_length, {}};
  }
  return parsed;
}

void emit_record(std::byte* to, const RecordHeader& header, std::span<const std::byte> payload) {
  const std::size_t end = Record::kHeaderSize + payload.size();
  if (!payload.empty()) std::memcpy(to + Record::kHeaderSize, payload.data(), payload.size());
  std::memset(to + end, 0, Record::size_of(payload.size()) - Record::kTrailerSize - end);
  emit_header(to, header, static_cast<std::uint32_t>(payload.size()), 0, payload);
  store_le(to + Record::size_of(payload.size()) - Record::kTrailerSize, ~header.sequence);
}

RecordShape shape_of(const std::byte* record) {
  return {.size = Record::size_of(load_le<std::uint32_t>(record + kLength)),
          .is_padding = (load_le<std::uint16_t>(record + kFlags) & Record::kFlagPad) != 0};
}

std::uint64_t sequence_of(const std::byte* record) {
  return load_le<std::uint64_t>(record + kSequence);
}

RecordShape change_epoch(std::byte* record, std::uint32_t epoch) {
  const RecordShape shape = shape_of(record);
  store_le(record + kEpoch, epoch);
  std::span<const std::byte> payload;
  if (!shape.is_padding) {
    payload = {record + Record::kHeaderSize, load_le<std::uint32_t>(record + kLength)};
  }
  store_le(record + kChecksum, crc32c(crc32c(0, {record, kChecksum}), payload));
  return shape;
}

void emit_padding(std::span<std::byte> bytes, const RecordHeader& header) {
  const auto length =
      static_cast<std::uint32_t>(bytes.size() - Record::kHeaderSize - Record::kTrailerSize);
  emit_header(bytes.data(), header, length, Record::kFlagPad, {});
}

}  // namespace rockhopper::publisher
