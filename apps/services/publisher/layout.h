// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

/// What a message store looks like in memory, for its writer and for those that read it over the
/// network: a control block, and behind it a ring of records (PB-4, PB-20) or the slots of a
/// conflated store. All numbers are little endian.
namespace rockhopper::publisher {

/// The kinds of stores.
enum class StoreKind : std::uint8_t {
  log = 1,        ///< a cyclic buffer of messages
  conflated = 2,  ///< the latest message of each key
};

inline constexpr std::uint32_t kStoreMagic = 0x53504852;  // "RHPS" in memory
inline constexpr std::uint8_t kLayoutVersion = 1;

/// What ControlBlock::layout has: the version above the kind.
[[nodiscard]] constexpr std::uint16_t layout_of(StoreKind kind) {
  return static_cast<std::uint16_t>(kLayoutVersion << 8 | static_cast<unsigned>(kind));
}

/// The first 64 bytes of a store. Only its writer changes it; subscribers READ it in one piece.
struct ControlBlock {
  std::uint32_t magic;
  std::uint16_t layout;
  std::uint16_t store_id;
  std::uint64_t epoch;         ///< the writer's incarnation, never 0
  std::uint64_t ring_bytes;    ///< behind the control block; a power of two
  std::uint64_t tail_pos;      ///< where the next record will begin, in bytes since the beginning
  std::uint64_t tail_seq;      ///< its sequence number
  std::uint64_t head_pos;      ///< of the oldest record that is intact; tail_pos: there is none
  std::uint64_t head_seq;      ///< its sequence number
  std::uint64_t heartbeat_ns;  ///< changes while the publisher lives; by its clock
};
static_assert(sizeof(ControlBlock) == 64);
static_assert(offsetof(ControlBlock, epoch) == 8);
static_assert(offsetof(ControlBlock, tail_pos) == 24);
static_assert(offsetof(ControlBlock, head_pos) == 40);
static_assert(offsetof(ControlBlock, heartbeat_ns) == 56);

/// A word of a store, which others read over the network while it is written.
[[nodiscard]] inline std::atomic_ref<std::uint64_t> shared(std::uint64_t& word) {
  return std::atomic_ref<std::uint64_t>(word);
}

/// Positions of records are multiples of it.
inline constexpr std::size_t kRecordAlignment = 32;
inline constexpr std::uint64_t kRingMin = 4096;
inline constexpr std::uint64_t kRingMax = std::uint64_t{1} << 40;

/// The longest message that a ring takes (PB-31).
[[nodiscard]] constexpr std::uint64_t message_max(std::uint64_t ring_bytes) {
  return ring_bytes / 4 < UINT32_MAX ? ring_bytes / 4 : UINT32_MAX;
}

/// Bytes of memory for a store with such a ring.
[[nodiscard]] constexpr std::uint64_t store_bytes(std::uint64_t ring_bytes) {
  return sizeof(ControlBlock) + ring_bytes;
}

template <typename T>
[[nodiscard]] constexpr T little_endian(T value) {
  static_assert(std::endian::native == std::endian::little,
                "stores of another byte order are not supported");
  return value;
}

template <typename T>
[[nodiscard]] T load_le(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return little_endian(value);
}

template <typename T>
void store_le(std::byte* p, T value) {
  value = little_endian(value);
  std::memcpy(p, &value, sizeof value);
}

/// Makes `block` that of a new incarnation. Who READs it meanwhile finds the new epoch with what
/// belongs to it only, or no store.
void write_control(ControlBlock& block, const ControlBlock& values);

}  // namespace rockhopper::publisher
