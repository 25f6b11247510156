// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/slot.h"

#include <cstring>

#include "apps/services/publisher/record.h"

namespace rockhopper::publisher {
namespace {

constexpr std::size_t kSlotVersion = 0;
constexpr std::size_t kSlotKey = 8;
constexpr std::size_t kSlotChange = 16;
constexpr std::size_t kSlotTime = 24;
constexpr std::size_t kSlotEpoch = 32;
constexpr std::size_t kSlotLength = 36;
constexpr std::size_t kSlotType = 40;
constexpr std::size_t kSlotReserved = 42;
constexpr std::size_t kSlotChecksum = 44;
static_assert(kSlotChecksum + 4 == Slot::kHeaderSize);

std::uint32_t checksum(const std::byte* slot, std::span<const std::byte> payload) {
  return crc32c(crc32c(0, {slot + kSlotKey, kSlotChecksum - kSlotKey}), payload);
}

}  // namespace

Slot::Parsed Slot::parse(std::span<const std::byte> bytes, std::uint32_t epoch,
                         std::uint32_t message_max) {
  if (bytes.size() < kHeaderSize) return {Status::wrong, {}};
  const std::byte* p = bytes.data();
  Slot slot{.version = load_le<std::uint64_t>(p + kSlotVersion),
            .key = load_le<std::uint64_t>(p + kSlotKey),
            .change = load_le<std::uint64_t>(p + kSlotChange),
            .time_ns = load_le<std::uint64_t>(p + kSlotTime),
            .epoch = load_le<std::uint32_t>(p + kSlotEpoch),
            .type = load_le<std::uint16_t>(p + kSlotType),
            .payload = {}};
  if (slot.version == 0) return {Status::empty, {}};
  if (slot.version % 2 != 0) return {Status::being_written, {}};
  const auto length = load_le<std::uint32_t>(p + kSlotLength);
  if (slot.epoch != epoch || length > message_max || length > bytes.size() - kHeaderSize) {
    return {Status::wrong, {}};
  }
  slot.payload = bytes.subspan(kHeaderSize, length);
  if (load_le<std::uint32_t>(p + kSlotChecksum) != checksum(p, slot.payload)) {
    return {Status::wrong, {}};
  }
  return {Status::valid, slot};
}

void emit_slot(std::byte* to, const Slot& slot, std::span<const std::byte> payload) {
  store_le(to + kSlotKey, slot.key);
  store_le(to + kSlotChange, slot.change);
  store_le(to + kSlotTime, slot.time_ns);
  store_le(to + kSlotEpoch, slot.epoch);
  store_le(to + kSlotLength, static_cast<std::uint32_t>(payload.size()));
  store_le(to + kSlotType, slot.type);
  store_le(to + kSlotReserved, std::uint16_t{0});
  if (!payload.empty()) std::memcpy(to + Slot::kHeaderSize, payload.data(), payload.size());
  store_le(to + kSlotChecksum, checksum(to, payload));
}

}  // namespace rockhopper::publisher
