// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/publisher/conflated_store.h"

#include <atomic>
#include <bit>

#include "apps/services/publisher/slot.h"

namespace rockhopper::publisher {
namespace {

std::uint64_t mix(std::uint64_t key) {
  key ^= key >> 32;
  key *= 0x9e3779b97f4a7c15;
  return key ^ key >> 29;
}

}  // namespace

std::uint64_t ConflatedStore::bytes_for(const Config& config) {
  if (config.keys == 0 || config.keys > kMaxKeys || config.message_max > Slot::kPayloadMax) {
    return 0;
  }
  return sizeof(ControlBlock) + config.keys * Slot::size_of(config.message_max);
}

ConflatedStore::ConflatedStore(std::span<std::byte> memory, const Config& config)
    : memory_(memory),
      config_(config),
      slot_bytes_(Slot::size_of(config.message_max)),
      table_(std::bit_ceil(std::size_t{config.keys} * 2)) {}

Expected<std::unique_ptr<ConflatedStore>> ConflatedStore::create(std::span<std::byte> memory,
                                                                 const Config& config) {
  const std::uint64_t bytes = bytes_for(config);
  if (bytes == 0) {
    return fail(ErrorCode::invalid_argument,
                "a conflated store has 1 to {} keys and messages of up to {} bytes", kMaxKeys,
                Slot::kPayloadMax);
  }
  if (memory.size() != bytes || reinterpret_cast<std::uintptr_t>(memory.data()) % 64 != 0) {
    return fail(ErrorCode::invalid_argument,
                "this conflated store needs {} bytes, aligned to 64; not {}", bytes, memory.size());
  }
  if (static_cast<std::uint32_t>(config.epoch) == 0) {
    return fail(ErrorCode::invalid_argument, "the low 32 bits of an epoch must not be 0");
  }
  auto store = std::unique_ptr<ConflatedStore>(new ConflatedStore(memory, config));
  write_control(store->control(), {.magic = kStoreMagic,
                                   .layout = layout_of(StoreKind::conflated),
                                   .store_id = config.id,
                                   .epoch = config.epoch,
                                   .ring_bytes = memory.size() - sizeof(ControlBlock),
                                   .tail_pos = 0,
                                   .tail_seq = 0,
                                   .head_pos = store->slot_bytes_,
                                   .head_seq = 0,
                                   .heartbeat_ns = 0});
  return store;
}

/// The place of the key in the table, or where it is to be.
ConflatedStore::Place& ConflatedStore::place_of(std::uint64_t key) {
  std::size_t at = mix(key) & (table_.size() - 1);
  while (table_[at].used && table_[at].key != key) {
    at = (at + 1) & (table_.size() - 1);
  }
  return table_[at];
}

Published ConflatedStore::publish(std::uint64_t key, std::span<const std::byte> payload,
                                  std::uint16_t type, std::uint64_t time_ns) {
  if (payload.size() > config_.message_max) {
    counters_.refused_too_long.add();
    return Published::too_long;
  }
  Place& place = place_of(key);
  if (!place.used) {
    if (keys_ == config_.keys) {
      counters_.refused_no_slot.add();
      return Published::no_slot;
    }
    place = {.key = key, .slot = keys_++, .used = true};
  }
  std::byte* slot = memory_.data() + sizeof(ControlBlock) + place.slot * slot_bytes_;
  auto version = shared(*reinterpret_cast<std::uint64_t*>(slot));
  const std::uint64_t before = version.load(std::memory_order_relaxed);
  version.store(before + 1, std::memory_order_relaxed);
  // It is odd before anything changes, and even when all has.
  std::atomic_thread_fence(std::memory_order_release);
  emit_slot(slot,
            {.key = key,
             .change = change_,
             .time_ns = time_ns,
             .epoch = static_cast<std::uint32_t>(config_.epoch),
             .type = type},
            payload);
  version.store(before + 2, std::memory_order_release);
  ++change_;
  shared(control().tail_pos).store(keys_ * slot_bytes_, std::memory_order_release);
  shared(control().tail_seq).store(change_, std::memory_order_release);
  counters_.messages.add();
  counters_.message_bytes.add(payload.size());
  counters_.commits.add();
  return Published::yes;
}

}  // namespace rockhopper::publisher
