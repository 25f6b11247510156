// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/store.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <iterator>

#include "apps/services/dag/hash.h"

namespace rockhopper::dag {
namespace {

/// MapPlace::flags: it lies in an arena.
constexpr std::uint16_t kInArena = 1;

std::atomic_ref<std::uint64_t> word_at(std::span<std::byte> record, std::size_t offset) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(record.data() + offset));
}

}  // namespace

Store::Store(std::span<std::byte> memory, const StoreConfig& config)
    : memory_(memory),
      config_(config),
      allocator_(memory.size()),
      map_(config.records, config.hash_bits),
      quarantine_(config.quarantine_ns),
      next_incarnation_(config.first_incarnation) {}

Expected<std::unique_ptr<Store>> Store::create(std::span<std::byte> memory,
                                               const StoreConfig& config) {
  if (memory.size() < kRecordAlignment ||
      reinterpret_cast<std::uintptr_t>(memory.data()) % kRecordAlignment != 0) {
    return fail(ErrorCode::invalid_argument, "a store's memory begins at a multiple of {}",
                kRecordAlignment);
  }
  if (config.records == 0 || config.records > Map::kRecordsMax) {
    return fail(ErrorCode::invalid_argument, "a store has 1 to {} records", Map::kRecordsMax);
  }
  if (config.hash_bits == 0 || config.hash_bits > 64) {
    return fail(ErrorCode::invalid_argument, "a store's map goes by 1 to 64 bits of a hash code");
  }
  if (config.capacity_max > kCapacityMax) {
    return fail(ErrorCode::invalid_argument, "a record holds {} bytes at most", kCapacityMax);
  }
  if (config.first_incarnation == 0) {
    return fail(ErrorCode::invalid_argument, "incarnations begin above 0");
  }
  return std::unique_ptr<Store>(new Store(memory, config));
}

std::optional<MapPlace> Store::find(std::uint64_t hash, std::span<const std::byte> key) const {
  return map_.find(hash, [&](const MapPlace& place) {
    return examine_head(bytes_of(place), place.incarnation, key).verdict == Verdict::match;
  });
}

bool Store::is_good(const CreateInit& init) const {
  return !init.key.empty() && init.key.size() <= kKeyMax && (init.slots == 1 || init.slots == 2);
}

Store::Outcome Store::create(const CreateInit& init) {
  if (!is_good(init)) return {.status = Status::invalid};
  if (init.capacity > config_.capacity_max || init.data.size() > init.capacity) {
    return {.status = Status::too_long};
  }
  const std::uint64_t hash = hash_of(init.key);
  if (find(hash, init.key)) return {.status = Status::exists};
  if (map_.size() == config_.records) return {.status = Status::exhausted};
  const std::uint64_t length = record_bytes(init.key.size(), init.capacity, init.slots);
  const auto address = allocator_.allocate(length);
  if (!address) return {.status = Status::exhausted};
  const MapPlace place{.incarnation = next_incarnation_++,
                       .address = *address,
                       .length = static_cast<std::uint32_t>(length)};
  compose_record({.key = init.key,
                  .incarnation = place.incarnation,
                  .capacity = init.capacity,
                  .slots = init.slots,
                  .control = init.control,
                  .data = init.data},
                 bytes_of(place));
  const bool inserted = map_.insert(hash, place);
  assert(inserted);
  (void)inserted;
  return {.status = Status::ok, .hash = hash, .place = place};
}

Store::Outcome Store::lookup(std::span<const std::byte> key) const {
  const std::uint64_t hash = hash_of(key);
  const auto place = find(hash, key);
  if (!place) return {.status = Status::not_found};
  return {.status = Status::ok, .hash = hash, .place = *place};
}

void Store::retire(std::uint64_t hash, const MapPlace& place, std::uint64_t now_ns) {
  map_.erase(hash, place.address);
  const auto record = bytes_of(place);
  // The word first: an update that has not swung it yet is too late.
  word_at(record, offsetof(RecordHeader, word)).store(kDead);
  word_at(record, offsetof(RecordHeader, lock)).store(kDead);
  word_at(record, offsetof(RecordHeader, incarnation)).store(0);
  if ((place.flags & kInArena) != 0) {
    const auto arena = arena_of(place.address);
    arena->second.adopted.erase(place.address);
    settle(arena, now_ns);
    return;
  }
  quarantine_.add(place.address, place.length, now_ns);
}

Store::Outcome Store::erase(std::span<const std::byte> key, std::uint64_t now_ns) {
  const Outcome found = lookup(key);
  if (found.status == Status::ok) retire(found.hash, found.place, now_ns);
  return found;
}

Store::Outcome Store::resize(std::span<const std::byte> key, std::uint32_t capacity,
                             std::uint64_t now_ns) {
  const Outcome found = lookup(key);
  if (found.status != Status::ok) return found;
  const RecordView view = examine_record(bytes_of(found.place), found.place.incarnation, key);
  if (view.verdict != Verdict::match) return {.status = Status::damaged};
  if (capacity > config_.capacity_max || view.data.size() > capacity) {
    return {.status = Status::too_long};
  }
  const std::uint64_t length = record_bytes(key.size(), capacity, view.header.slots);
  const auto address = allocator_.allocate(length);
  if (!address) return {.status = Status::exhausted};
  const MapPlace place{.incarnation = next_incarnation_++,
                       .address = *address,
                       .length = static_cast<std::uint32_t>(length)};
  compose_record({.key = key,
                  .incarnation = place.incarnation,
                  .capacity = capacity,
                  .slots = view.header.slots,
                  .control = view.header.control,
                  .data = view.data},
                 bytes_of(place));
  retire(found.hash, found.place, now_ns);
  const bool inserted = map_.insert(found.hash, place);
  assert(inserted);
  (void)inserted;
  return {.status = Status::ok, .hash = found.hash, .place = place};
}

// Arenas.

Store::Outcome Store::allocate_arena(std::uint32_t owner, std::uint64_t bytes,
                                     std::span<const std::byte> group) {
  if (bytes == 0 || bytes > UINT32_MAX || group.size() > kKeyMax) {
    return {.status = Status::invalid};
  }
  const auto address = allocator_.allocate(bytes);
  if (!address) return {.status = Status::exhausted};
  const MapPlace place{.incarnation = next_incarnation_,
                       .address = *address,
                       .length = static_cast<std::uint32_t>(bytes),
                       .flags = kInArena};
  next_incarnation_ += bytes / kArenaStep + 1;
  arenas_.emplace(*address, Arena{.bytes = bytes,
                                  .owner = owner,
                                  .released = false,
                                  .first_incarnation = place.incarnation,
                                  .group = {group.begin(), group.end()},
                                  .adopted = {}});
  return {.status = Status::ok, .hash = 0, .place = place};
}

std::optional<std::span<const std::byte>> Store::arena_bytes(
    std::uint32_t owner, std::uint64_t address, std::optional<std::uint64_t> incarnation) const {
  const auto arena = arenas_.find(address);
  if (arena == arenas_.end() || arena->second.owner != owner || arena->second.released ||
      (incarnation && arena->second.first_incarnation != *incarnation)) {
    return std::nullopt;
  }
  return memory_.subspan(address, arena->second.bytes);
}

Store::Arenas::iterator Store::arena_of(std::uint64_t address) {
  const auto above = arenas_.upper_bound(address);
  if (above == arenas_.begin()) return arenas_.end();
  const auto arena = std::prev(above);
  return address - arena->first < arena->second.bytes ? arena : arenas_.end();
}

Store::Outcome Store::adopt(std::uint32_t owner, std::span<const std::byte> key,
                            const MapPlace& claimed) {
  const auto arena = arena_of(claimed.address);
  if (key.empty() || key.size() > kKeyMax || arena == arenas_.end() ||
      arena->second.owner != owner || arena->second.released || claimed.address % 8 != 0 ||
      claimed.length > arena->second.bytes - (claimed.address - arena->first) ||
      claimed.incarnation < arena->second.first_incarnation ||
      claimed.incarnation - arena->second.first_incarnation > arena->second.bytes / kArenaStep) {
    return {.status = Status::invalid};
  }
  auto& adopted = arena->second.adopted;
  const auto next = adopted.lower_bound(claimed.address);
  if ((next != adopted.end() && claimed.address + claimed.length > next->first) ||
      (next != adopted.begin() &&
       std::prev(next)->first + std::prev(next)->second > claimed.address)) {
    return {.status = Status::invalid};
  }
  const RecordView view = examine_record(bytes_of(claimed), claimed.incarnation, key);
  if (view.verdict != Verdict::match || view.header.capacity > config_.capacity_max ||
      record_bytes(key.size(), view.header.capacity, view.header.slots) > claimed.length) {
    return {.status = Status::damaged};
  }
  const std::uint64_t hash = hash_of(key);
  if (find(hash, key)) return {.status = Status::exists};
  MapPlace place = claimed;
  place.flags = kInArena;
  if (!map_.insert(hash, place)) return {.status = Status::exhausted};
  adopted.emplace(place.address, place.length);
  return {.status = Status::ok, .hash = hash, .place = place};
}

void Store::settle(Arenas::iterator arena, std::uint64_t now_ns) {
  if (!arena->second.released || !arena->second.adopted.empty()) return;
  quarantine_.add(arena->first, arena->second.bytes, now_ns);
  arenas_.erase(arena);
}

Status Store::release_arena(std::uint32_t owner, std::uint64_t address, std::uint64_t now_ns) {
  const auto arena = arenas_.find(address);
  if (arena == arenas_.end() || arena->second.owner != owner || arena->second.released) {
    return Status::not_found;
  }
  arena->second.released = true;
  settle(arena, now_ns);
  return Status::ok;
}

template <typename Which>
std::size_t Store::release_if(const Which& which, std::uint64_t now_ns) {
  std::size_t count = 0;
  for (auto arena = arenas_.begin(); arena != arenas_.end();) {
    const auto next = std::next(arena);
    if (!arena->second.released && which(arena->second)) {
      arena->second.released = true;
      ++count;
      settle(arena, now_ns);
    }
    arena = next;
  }
  return count;
}

void Store::release_arenas(std::uint32_t owner, std::uint64_t now_ns) {
  (void)release_if(
      [owner](const Arena& arena) {
        if (!arena.group.empty()) return false;
        return arena.owner == owner;
      },
      now_ns);
}

std::size_t Store::release_group(std::span<const std::byte> group, std::uint64_t now_ns) {
  if (group.empty()) return 0;
  return release_if(
      [group](const Arena& arena) {
        return std::equal(arena.group.begin(), arena.group.end(), group.begin(), group.end());
      },
      now_ns);
}

std::size_t Store::release_locks(std::uint32_t owner) {
  std::size_t count = 0;
  map_.for_each([&](const MapPlace& place) {
    auto lock = word_at(bytes_of(place), offsetof(RecordHeader, lock));
    const std::uint64_t held = lock.load();
    if (held == kDead || LockWord::from(held).owner != owner) return;
    lock.store(0);
    ++count;
  });
  return count;
}

void Store::collect(std::uint64_t now_ns) {
  quarantine_.release(now_ns, [this](const Quarantine::Block& block) {
    allocator_.release(block.address, block.bytes);
  });
}

}  // namespace rockhopper::dag
