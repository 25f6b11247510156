// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/store.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

namespace rockhopper::publisher {
namespace {

Expected<void> check(std::span<std::byte> memory, const StoreConfig& config) {
  const std::uint64_t ring_bytes = memory.size() - sizeof(ControlBlock);
  if (memory.size() < store_bytes(kRingMin) || ring_bytes > kRingMax ||
      !std::has_single_bit(ring_bytes)) {
    return fail(ErrorCode::invalid_argument,
                "a store has 64 bytes and a ring of a power of two from {} to {}; {} bytes are not "
                "that",
                kRingMin, kRingMax, memory.size());
  }
  if (reinterpret_cast<std::uintptr_t>(memory.data()) % sizeof(ControlBlock) != 0) {
    return fail(ErrorCode::invalid_argument, "a store has to be aligned to 64 bytes");
  }
  if (static_cast<std::uint32_t>(config.epoch) == 0) {
    return fail(ErrorCode::invalid_argument, "the low 32 bits of an epoch must not be 0");
  }
  if (config.message_max > message_max(ring_bytes)) {
    return fail(ErrorCode::invalid_argument,
                "messages of up to {} bytes do not fit: a quarter of the ring is {}",
                config.message_max, message_max(ring_bytes));
  }
  return {};
}

/// In the state in which a line is written, which __builtin_prefetch() asks for only where the
/// compiler may suppose that the processor has the instruction. Those that do not ignore it.
void prefetch_to_write(const std::byte* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*line));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace

std::string_view to_string(Published published) {
  switch (published) {
    case Published::yes:
      return "published";
    case Published::too_long:
      return "too long";
    case Published::no_slot:
      return "no slot free";
  }
  return "?";
}

void AnyStore::heartbeat(std::uint64_t now_ns) {
  auto& control = *reinterpret_cast<ControlBlock*>(memory().data());
  shared(control.heartbeat_ns).store(now_ns, std::memory_order_relaxed);
}

StoreTail AnyStore::tail() const {
  auto& control = *reinterpret_cast<ControlBlock*>(memory().data());
  // Of the two words the one that the writer stores last.
  auto& word = kind() == StoreKind::log ? control.tail_pos : control.tail_seq;
  return {.epoch = epoch(), .position = shared(word).load(std::memory_order_acquire)};
}

Store::Store(std::span<std::byte> memory, const StoreConfig& config)
    : memory_(memory),
      ring_(memory.data() + sizeof(ControlBlock)),
      mask_(memory.size() - sizeof(ControlBlock) - 1),
      config_(config) {
  if (config_.message_max == 0) {
    config_.message_max = static_cast<std::uint32_t>(publisher::message_max(ring_bytes()));
  }
}

Expected<std::unique_ptr<Store>> Store::create(std::span<std::byte> memory,
                                               const StoreConfig& config) {
  ROCKHOPPER_TRY(check(memory, config));
  auto store = std::unique_ptr<Store>(new Store(memory, config));
  store->write_control();
  return store;
}

void Store::write_control() {
  publisher::write_control(control(), {.magic = kStoreMagic,
                                       .layout = layout_of(StoreKind::log),
                                       .store_id = config_.id,
                                       .epoch = config_.epoch,
                                       .ring_bytes = ring_bytes(),
                                       .tail_pos = position_,
                                       .tail_seq = sequence_,
                                       .head_pos = head_position_,
                                       .head_seq = head_sequence_,
                                       .heartbeat_ns = 0});
}

Expected<Store::Recovered> Store::recover(std::span<std::byte> memory, const StoreConfig& config) {
  ROCKHOPPER_TRY(check(memory, config));
  ControlBlock left{};
  std::memcpy(&left, memory.data(), sizeof left);
  const std::uint64_t ring_bytes = memory.size() - sizeof(ControlBlock);
  if (left.magic != kStoreMagic) {
    return fail(ErrorCode::invalid_argument, "there is no store in that memory");
  }
  if (left.layout != layout_of(StoreKind::log)) {
    return fail(ErrorCode::unsupported, "the store has layout {:#06x}, not {:#06x}", left.layout,
                layout_of(StoreKind::log));
  }
  if (left.store_id != config.id || left.ring_bytes != ring_bytes) {
    return fail(ErrorCode::invalid_argument,
                "the store is number {} with {} bytes, not number {} with {} bytes", left.store_id,
                left.ring_bytes, config.id, ring_bytes);
  }
  const bool plausible =
      static_cast<std::uint32_t>(left.epoch) != 0 && left.head_pos <= left.tail_pos &&
      left.head_seq <= left.tail_seq && left.tail_pos - left.head_pos <= ring_bytes &&
      left.tail_pos % kRecordAlignment == 0 && left.head_pos % kRecordAlignment == 0;
  if (!plausible) {
    return fail(ErrorCode::invalid_argument, "the store's control block contradicts itself");
  }
  StoreConfig found = config;
  found.epoch = left.epoch;
  auto store = std::unique_ptr<Store>(new Store(memory, found));
  store->committed_position_ = left.tail_pos;
  store->resume(left.head_pos, left.head_seq);
  std::uint64_t cut = 0;
  if (store->position_ != left.tail_pos) {
    cut = left.tail_seq > store->sequence_ ? left.tail_seq - store->sequence_ : 1;
    store->config_.epoch = config.epoch;
    store->seal_again();
  }
  store->committed_position_ = store->position_;
  store->write_control();
  Recovered recovered{.messages = store->sequence_ - store->head_sequence_, .cut = cut};
  recovered.store = std::move(store);
  return recovered;
}

Record::Parsed Store::record_at(std::uint64_t position) const {
  const auto longest = static_cast<std::uint32_t>(publisher::message_max(ring_bytes()));
  // Of the words for position and number a writer that was killed has written one perhaps, so the
  // first record's own number counts.
  const bool is_first = position == head_position_;
  return Record::parse({at(position), static_cast<std::size_t>(to_end(position))},
                       {.position = position,
                        .epoch = static_cast<std::uint32_t>(config_.epoch),
                        .sequence = is_first ? 0 : sequence_,
                        .any_sequence = is_first,
                        .message_max = longest});
}

/// Goes from the oldest record to the last one that is intact.
void Store::resume(std::uint64_t head_position, std::uint64_t head_sequence) {
  head_position_ = position_ = head_position;
  head_sequence_ = sequence_ = head_sequence;
  while (position_ < committed_position_) {
    if (const std::uint64_t rest = to_end(position_); rest < Record::kSizeMin) {
      head_position_ += position_ == head_position_ ? rest : 0;
      position_ += rest;
      continue;
    }
    const auto [status, record] = record_at(position_);
    if (status != RecordStatus::valid || record.size > committed_position_ - position_) return;
    if (position_ == head_position_) head_sequence_ = record.sequence;
    position_ += record.size;
    sequence_ = record.sequence + (record.is_padding() ? 0 : 1);
  }
}

/// Gives all records the new epoch. Who READs meanwhile finds them wrong.
void Store::seal_again() {
  const std::uint64_t end = position_;
  for (std::uint64_t position = head_position_; position < end;) {
    if (to_end(position) < Record::kSizeMin) {
      position += to_end(position);
      continue;
    }
    const RecordShape shape = change_epoch(at(position), static_cast<std::uint32_t>(config_.epoch));
    position += shape.size;
  }
}

Published Store::publish(std::span<const std::byte> payload, std::uint16_t type,
                         std::uint64_t time_ns) {
  const Published published = append(payload, type, time_ns);
  if (published == Published::yes) commit();
  return published;
}

RecordHeader Store::header(std::uint16_t type, std::uint64_t time_ns) const {
  return {.position = position_,
          .sequence = sequence_,
          .epoch = static_cast<std::uint32_t>(config_.epoch),
          .time_ns = time_ns,
          .type = type};
}

Published Store::append(std::span<const std::byte> payload, std::uint16_t type,
                        std::uint64_t time_ns) {
  if (payload.size() > config_.message_max) {
    counters_.refused_too_long.add();
    return Published::too_long;
  }
  const std::uint64_t size = Record::size_of(payload.size());
  const std::uint64_t rest = to_end(position_) < size ? to_end(position_) : 0;
  const std::uint64_t end = position_ + rest + size;
  // What is not shown yet must not be what is given up.
  if (end - committed_position_ > ring_bytes() / 2) commit();
  evict_before(end);
  if (rest != 0) pad();
  prefetch_behind(end);
  emit_record(at(position_), header(type, time_ns), payload);
  position_ = end;
  ++sequence_;
  counters_.messages.add();
  counters_.message_bytes.add(payload.size());
  return Published::yes;
}

/// Has the processor take the lines back that will be written soon: a subscriber's READ has left
/// them in another processor's cache.
void Store::prefetch_behind(std::uint64_t position) {
  constexpr std::uint64_t kAheadBytes = 1024;
  constexpr std::uint64_t kLineBytes = 64;
  const std::uint64_t until = position + kAheadBytes;
  std::uint64_t line = std::max(prefetched_, position);
  for (; line < until; line += kLineBytes) {
    prefetch_to_write(at(line));
  }
  prefetched_ = line;
}

/// Fills the ring to its end.
void Store::pad() {
  const std::uint64_t rest = to_end(position_);
  if (rest >= Record::kSizeMin) {
    emit_padding({at(position_), static_cast<std::size_t>(rest)}, header(0, 0));
    counters_.paddings.add();
  }
  position_ += rest;
}

/// Gives up records until the ring has room up to `position`, and says so before anything is
/// overwritten (PB-22).
void Store::evict_before(std::uint64_t position) {
  if (position - head_position_ <= ring_bytes()) return;
  const std::uint64_t first = head_sequence_;
  while (position - head_position_ > ring_bytes()) {
    const std::uint64_t rest = to_end(head_position_);
    if (rest < Record::kSizeMin) {
      head_position_ += rest;
      continue;
    }
    const auto [size, is_padding] = shape_of(at(head_position_));
    if (size > rest || size > position_ - head_position_) {
      // Somebody else has written here: nothing that is older can be found any more.
      head_position_ = position_;
      head_sequence_ = sequence_;
      break;
    }
    head_position_ += size;
    if (!is_padding) ++head_sequence_;
  }
  counters_.evicted.add(head_sequence_ - first);
  shared(control().head_seq).store(head_sequence_, std::memory_order_relaxed);
  shared(control().head_pos).store(head_position_, std::memory_order_relaxed);
  // Both are there before what is written next.
  std::atomic_thread_fence(std::memory_order_release);
}

void Store::commit() {
  if (committed_position_ == position_) return;
  committed_position_ = position_;
  // All records are there before the tail says so.
  shared(control().tail_seq).store(sequence_, std::memory_order_release);
  shared(control().tail_pos).store(position_, std::memory_order_release);
  counters_.commits.add();
}

}  // namespace rockhopper::publisher
