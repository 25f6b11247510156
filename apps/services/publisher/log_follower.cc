// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/log_follower.h"

#include <array>
#include <atomic>
#include <cassert>
#include <cstring>
#include <utility>

namespace rockhopper::publisher {
namespace {

std::uint64_t load_shared(std::span<std::byte> memory, std::size_t offset) {
  auto& word = *reinterpret_cast<std::uint64_t*>(memory.data() + offset);
  return std::atomic_ref<std::uint64_t>(word).load(std::memory_order_acquire);
}

}  // namespace

LogFollower::LogFollower(const AnyStore& store)
    : memory_(store.memory()),
      ring_(memory_.subspan(sizeof(ControlBlock))),
      store_id_(store.id()),
      epoch_(static_cast<std::uint32_t>(store.epoch())),
      message_max_(store.message_max()),
      position_(tail_position()) {
  assert(store.kind() == StoreKind::log);
}

std::uint64_t LogFollower::head_position() const {
  return load_shared(memory_, offsetof(ControlBlock, head_pos));
}

std::uint64_t LogFollower::tail_position() const {
  return load_shared(memory_, offsetof(ControlBlock, tail_pos));
}

std::uint64_t LogFollower::take_skipped() { return std::exchange(skipped_, 0); }

void LogFollower::pass(std::uint64_t size, std::uint64_t next_sequence) {
  position_ += size;
  sequence_ = next_sequence;
  next_sequence_ = next_sequence;
}

/// What was next is not what it was, or never was a record.
LogFollower::Step LogFollower::resume(std::uint64_t tail_position) {
  sequence_.reset();
  std::atomic_thread_fence(std::memory_order_acquire);
  const std::uint64_t head = head_position();
  const bool overtaken = head > position_;
  position_ = overtaken ? head : tail_position;
  return overtaken ? Step::overtaken : Step::damaged;
}

LogFollower::Step LogFollower::next(std::span<std::byte> room) {
  const std::uint64_t tail = tail_position();
  while (position_ < tail) {
    const std::uint64_t offset = position_ & (ring_.size() - 1);
    const std::uint64_t to_end = ring_.size() - offset;
    if (to_end < Record::kSizeMin) {
      position_ += to_end;
      continue;
    }
    // The writer may be at it: the header is copied before it is looked at.
    std::array<std::byte, Record::kHeaderSize> header;
    std::memcpy(header.data(), ring_.data() + offset, header.size());
    const RecordShape shape = shape_of(header.data());
    if (shape.size > to_end || shape.size > tail - position_) return resume(tail);
    const bool fits = shape.size <= room.size() && !shape.is_padding;
    if (fits) std::memcpy(room.data(), ring_.data() + offset, shape.size);
    // What comes behind, the head among it, is not read before the copy is there.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (head_position() > position_) return resume(tail);
    const std::uint64_t sequence = sequence_of(header.data());
    if (!fits) {
      if (sequence_ && sequence != *sequence_) return resume(tail);
      if (next_sequence_ && sequence > *next_sequence_) skipped_ += sequence - *next_sequence_;
      pass(shape.size, sequence + (shape.is_padding ? 0 : 1));
      if (shape.is_padding) continue;
      return Step::too_long;
    }
    const auto [status, record] =
        Record::parse(room.first(shape.size), {.position = position_,
                                               .epoch = epoch_,
                                               .sequence = sequence_.value_or(0),
                                               .any_sequence = !sequence_.has_value(),
                                               .message_max = message_max_});
    if (status != RecordStatus::valid) return resume(tail);
    if (next_sequence_ && sequence > *next_sequence_) skipped_ += sequence - *next_sequence_;
    size_ = record.size;
    pass(record.size, record.sequence + 1);
    return Step::record;
  }
  return Step::nothing;
}

}  // namespace rockhopper::publisher
