// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/interop/store_reading.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <boost/crc.hpp>

#include "tests/interop/rc_exchange.h"

namespace rockhopper::interop {
namespace {

constexpr std::uint32_t kMagic = 0x53504852;
constexpr std::uint16_t kLogLayout = 0x0101;  // version 1, a log
constexpr std::uint64_t kHeader = 40;
constexpr std::uint64_t kTrailer = 8;
constexpr std::uint64_t kAlignment = 32;
constexpr std::uint64_t kShortest = 64;
constexpr std::uint16_t kPadding = 1;

/// Stores are little endian, and so must we be.
template <typename T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  static_assert(std::endian::native == std::endian::little);
  T value{};
  std::memcpy(&value, bytes.subspan(offset, sizeof value).data(), sizeof value);
  return value;
}

std::uint32_t crc32c(std::span<const std::byte> header, std::span<const std::byte> payload) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(header.data(), header.size());
  crc.process_bytes(payload.data(), payload.size());
  return crc.checksum();
}

std::uint64_t record_size(std::uint64_t length) {
  return (kHeader + length + kTrailer + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

StoreReading::StoreReading(const Store& store, Deliver deliver)
    : store_(store), deliver_(std::move(deliver)) {
  if (store.layout != kLogLayout) throw Failure("the store has another layout than 0x0101");
  if (!std::has_single_bit(store.ring_bytes) || store.message_max > store.ring_bytes / 4) {
    throw Failure("there can be no such store");
  }
}

std::uint64_t StoreReading::longest_record() const { return record_size(store_.message_max); }

std::vector<StoreRange> StoreReading::next(std::uint32_t limit) const {
  if (!begun_ || position_ == tail_) return {};
  const auto bytes = static_cast<std::uint32_t>(
      std::min<std::uint64_t>({tail_ - position_, limit, store_.ring_bytes}));
  const std::uint64_t offset = position_ % store_.ring_bytes;
  const auto first =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, store_.ring_bytes - offset));
  std::vector<StoreRange> ranges{{kControlBytes + offset, first}};
  if (bytes > first) ranges.push_back({kControlBytes, bytes - first});
  return ranges;
}

bool StoreReading::take(std::span<const std::byte> records, std::span<const std::byte> control) {
  ++tally_.rounds;
  const auto tail = load<std::uint64_t>(control, 24);
  const auto head = load<std::uint64_t>(control, 40);
  if (load<std::uint32_t>(control, 0) != kMagic ||
      load<std::uint16_t>(control, 4) != store_.layout ||
      load<std::uint16_t>(control, 6) != store_.id ||
      load<std::uint64_t>(control, 16) != store_.ring_bytes || head > tail) {
    ++tally_.refused;
    return false;
  }
  if (load<std::uint64_t>(control, 8) != store_.epoch) throw Failure("the store has begun anew");
  const bool news = !records.empty() || tail > tail_;
  if (tail >= tail_) {
    tail_ = tail;
    tail_sequence_ = load<std::uint64_t>(control, 32);
  }
  if (!begun_ || position_ < head) {
    tally_.lapped += begun_ ? 1 : 0;
    const std::uint64_t gone = head - position_;
    records = begun_ ? records.subspan(std::min<std::uint64_t>(gone, records.size()))
                     : std::span<const std::byte>();
    position_ = head;
    sequence_known_ = false;
    begun_ = true;
  }
  while (!records.empty()) {
    const std::uint64_t size = take_record(records);
    if (size == 0) break;
    position_ += size;
    records = records.subspan(std::min<std::uint64_t>(size, records.size()));
  }
  return news;
}

std::uint64_t StoreReading::take_record(std::span<const std::byte> bytes) {
  const std::uint64_t to_end = store_.ring_bytes - position_ % store_.ring_bytes;
  if (to_end < kShortest) return to_end;
  if (bytes.size() < kHeader) return 0;  // the next round has it from its beginning on
  const auto sequence = load<std::uint64_t>(bytes, 8);
  const auto length = load<std::uint32_t>(bytes, 20);
  const bool padding = (load<std::uint16_t>(bytes, 34) & kPadding) != 0;
  const std::uint64_t size = record_size(length);
  if (load<std::uint64_t>(bytes, 0) != position_ ||
      load<std::uint32_t>(bytes, 16) != static_cast<std::uint32_t>(store_.epoch) ||
      (sequence_known_ ? sequence != next_ : sequence < next_) || size > to_end ||
      (!padding && length > store_.message_max)) {
    ++tally_.refused;
    return 0;
  }
  std::span<const std::byte> payload;
  if (!padding) {
    if (size > bytes.size()) return 0;
    payload = bytes.subspan(kHeader, length);
  }
  if (crc32c(bytes.first(36), payload) != load<std::uint32_t>(bytes, 36) ||
      (!padding && load<std::uint64_t>(bytes, size - kTrailer) != ~sequence)) {
    ++tally_.refused;
    return 0;
  }
  lose_up_to(sequence);
  sequence_known_ = true;
  if (!padding) {
    next_ = sequence + 1;
    ++tally_.messages;
    tally_.bytes += length;
    deliver_(sequence, payload);
  }
  return size;
}

void StoreReading::lose_up_to(std::uint64_t sequence) {
  if (sequence <= next_) return;
  tally_.lost.emplace_back(next_, sequence - 1);
  next_ = sequence;
}

void StoreReading::finish() { lose_up_to(tail_sequence_); }

}  // namespace rockhopper::interop
