// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/publisher/slot.h"

#include <cstring>

#include "apps/publisher/record.h"

namespace rockhopper::publisher {
namespace {

constexpr std::size_t kVersion = 0;
constexpr std::size_t kKey = 8;
constexpr std::size_t kChange = 16;
constexpr std::size_t kTime = 24;
constexpr std::size_t kEpoch = 32;
constexpr std::size_t kLength = 36;
constexpr std::size_t kType = 40;
constexpr std::size_t kReserved = 42;
constexpr std::size_t kChecksum = 44;
static_assert(kChecksum + 4 == Slot::kHeaderSize);

std::uint32_t checksum(const std::byte* slot, std::span<const std::byte> payload) {
  return crc32c(crc32c(0, {slot + kKey, kChecksum - kKey}), payload);
}

}  // namespace

Slot::Parsed Slot::parse(std::span<const std::byte> bytes, std::uint32_t epoch,
                         std::uint32_t message_max) {
  if (bytes.size() < kHeaderSize) return {Status::wrong, {}};
  const std::byte* p = bytes.data();
  Slot slot{.version = load_le<std::uint64_t>(p + kVersion),
            .key = load_le<std::uint64_t>(p + kKey),
            .change = load_le<std::uint64_t>(p + kChange),
            .time_ns = load_le<std::uint64_t>(p + kTime),
            .epoch = load_le<std::uint32_t>(p + kEpoch),
            .type = load_le<std::uint16_t>(p + kType),
            .payload = {}};
  if (slot.version == 0) return {Status::empty, {}};
  if (slot.version % 2 != 0) return {Status::being_written, {}};
  const auto length = load_le<std::uint32_t>(p + kLength);
  if (slot.epoch != epoch || length > message_max || length > bytes.size() - kHeaderSize) {
    return {Status::wrong, {}};
  }
  slot.payload = bytes.subspan(kHeaderSize, length);
  if (load_le<std::uint32_t>(p + kChecksum) != checksum(p, slot.payload)) {
    return {Status::wrong, {}};
  }
  return {Status::valid, slot};
}

void emit_slot(std::byte* to, const Slot& slot, std::span<const std::byte> payload) {
  store_le(to + kKey, slot.key);
  store_le(to + kChange, slot.change);
  store_le(to + kTime, slot.time_ns);
  store_le(to + kEpoch, slot.epoch);
  store_le(to + kLength, static_cast<std::uint32_t>(payload.size()));
  store_le(to + kType, slot.type);
  store_le(to + kReserved, std::uint16_t{0});
  if (!payload.empty()) std::memcpy(to + Slot::kHeaderSize, payload.data(), payload.size());
  store_le(to + kChecksum, checksum(to, payload));
}

}  // namespace rockhopper::publisher
