// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

/// What a record is in a server's memory. Numbers are little endian. Whoever READs a record finds
/// in the bytes themselves whether they are the wanted one, whole and of one version (DG-30,
/// DG-32):
///
///     header | control words | key | slot A | slot B
///
/// One slot is active: the header's word says which, and with what version. An update fills the
/// other one and then swings the word. A record of one slot is never updated.
namespace rockhopper::dag {

static_assert(std::endian::native == std::endian::little, "records are little endian");

inline constexpr std::uint32_t kRecordMagic = 0x31474452;
inline constexpr std::size_t kKeyMax = 256;  ///< bytes of a key, of which there is one at least
inline constexpr std::size_t kControlWords = 4;
inline constexpr std::size_t kRecordAlignment = 64;
/// Returns `bytes` rounded up to whole lines, at which records begin.
[[nodiscard]] constexpr std::uint64_t whole_lines(std::uint64_t bytes) {
  return (bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}
/// The largest data of a record, bytes.
inline constexpr std::uint32_t kCapacityMax = 1u << 30;

/// A key that is text, as a record has it. It refers to the text.
[[nodiscard]] inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

using ControlWords = std::array<std::uint64_t, kControlWords>;

/// What clients agree on by CAS and FETCH_ADD. The control words belong to the application; no
/// checksum covers them.
struct RecordHeader {
  std::uint32_t magic = kRecordMagic;
  std::uint16_t key_length = 0;
  std::uint8_t slots = 2;  ///< 1 or 2
  std::uint8_t reserved = 0;
  std::uint32_t capacity = 0;  ///< bytes of data that a slot has room for
  std::uint32_t reserved_2 = 0;
  std::uint64_t incarnation = 0;  ///< no other record of the server has had it; 0: deleted
  std::uint64_t key_hash = 0;     ///< all 64 bits
  std::uint64_t word = 0;         ///< RecordWord, or kDead
  std::uint64_t lock = 0;         ///< LockWord, 0: free, or kDead
  std::array<std::uint64_t, 2> reserved_3{};
  ControlWords control{};
};
static_assert(sizeof(RecordHeader) == 96);
/// Returns the address of a control word of the record at `record`.
[[nodiscard]] constexpr std::uint64_t word_address(std::uint64_t record, unsigned word) {
  return record + offsetof(RecordHeader, control) + std::uint64_t{8} * word;
}

struct SlotHeader {
  std::uint64_t version = 0;
  std::uint64_t writer = 0;  ///< lock word of the update that wrote it; 0: the server
  std::uint32_t length = 0;  ///< of the data
  std::uint32_t reserved = 0;
  std::uint64_t checksum = 0;  ///< of incarnation, key hash, what is above, and the data
};
static_assert(sizeof(SlotHeader) == 32);

/// Word and lock of a record that has been deleted or has moved. No update gets past them.
inline constexpr std::uint64_t kDead = ~std::uint64_t{0};

/// The word that an update swings.
struct RecordWord {
  std::uint64_t version = 0;
  unsigned slot = 0;  ///< 0 or 1
  [[nodiscard]] constexpr std::uint64_t bits() const { return version << 1 | slot; }
  [[nodiscard]] static constexpr RecordWord from(std::uint64_t bits) {
    return {.version = bits >> 1, .slot = static_cast<unsigned>(bits & 1)};
  }
  [[nodiscard]] constexpr RecordWord next(unsigned slots) const {
    return {.version = version + 1, .slot = slots == 2 ? 1 - slot : 0};
  }
};

/// The client that holds a record for an update.
struct LockWord {
  std::uint32_t owner = 0;  ///< a client's number, above 0
  std::uint32_t epoch = 0;  ///< another one with each attempt
  [[nodiscard]] constexpr std::uint64_t bits() const { return std::uint64_t{owner} << 32 | epoch; }
  [[nodiscard]] static constexpr LockWord from(std::uint64_t bits) {
    return {.owner = static_cast<std::uint32_t>(bits >> 32),
            .epoch = static_cast<std::uint32_t>(bits)};
  }
};

[[nodiscard]] constexpr std::uint64_t aligned_8(std::uint64_t bytes) {
  return (bytes + 7) & ~std::uint64_t{7};
}
[[nodiscard]] constexpr std::uint64_t slot_bytes(std::uint32_t capacity) {
  return sizeof(SlotHeader) + aligned_8(capacity);
}
/// From the record's begin.
[[nodiscard]] constexpr std::uint64_t slot_offset(std::size_t key_length, std::uint32_t capacity,
                                                  unsigned slot) {
  return sizeof(RecordHeader) + aligned_8(key_length) + slot * slot_bytes(capacity);
}
/// What it takes, header and all.
[[nodiscard]] constexpr std::uint64_t record_bytes(std::size_t key_length, std::uint32_t capacity,
                                                   unsigned slots) {
  return slot_offset(key_length, capacity, slots);
}
/// What a READ needs that shall only tell whose record it is.
inline constexpr std::uint64_t kHeadBytes = sizeof(RecordHeader) + kKeyMax;

struct RecordInit {
  std::span<const std::byte> key;  ///< 1 to kKeyMax bytes
  std::uint64_t incarnation = 0;   ///< not 0
  std::uint32_t capacity = 0;      ///< kCapacityMax at most
  unsigned slots = 2;
  ControlWords control{};
  std::span<const std::byte> data;  ///< of version 1; `capacity` bytes at most
};
/// Writes a record of version 1; `out` has record_bytes(). The other slot is not written.
void compose_record(const RecordInit& init, std::span<std::byte> out);
/// Writes a slot; `out` has as many bytes as it and the data need. `data` may lie in `out`, in its
/// place.
void compose_slot(const RecordHeader& header, std::uint64_t version, std::uint64_t writer,
                  std::span<const std::byte> data, std::span<std::byte> out);

/// What bytes that have been READ are.
enum class Verdict : std::uint8_t {
  match,      ///< the wanted record, whole
  other_key,  ///< a record, but of another key (DG-8)
  stale,      ///< no such record there any more (DG-30)
  torn,       ///< the record, but not of one version: to be READ again (DG-32)
};

struct RecordView {
  Verdict verdict = Verdict::stale;
  RecordHeader header;              ///< of match, other_key and torn
  std::uint64_t version = 0;        ///< of match
  std::span<const std::byte> data;  ///< of match: in the bytes given
};

/// Judges what a READ of a record has brought. `incarnation` is that of the entry which led there.
/// Without `key`, the incarnation decides alone.
[[nodiscard]] RecordView examine_record(std::span<const std::byte> bytes, std::uint64_t incarnation,
                                        std::optional<std::span<const std::byte>> key);
/// Does the same for the head alone, without a look at the slots.
[[nodiscard]] RecordView examine_head(std::span<const std::byte> bytes, std::uint64_t incarnation,
                                      std::optional<std::span<const std::byte>> key);
/// The slot with that number, if it is whole.
[[nodiscard]] std::optional<SlotHeader> examine_slot(std::span<const std::byte> bytes,
                                                     const RecordHeader& header, unsigned slot);

}  // namespace rockhopper::dag
