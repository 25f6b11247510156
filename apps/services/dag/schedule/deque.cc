// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/deque.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

namespace rockhopper::dag {
namespace {

// Peers' atomics are executed by this thread, their READs too: the order is the program's.
std::uint64_t load(const std::byte* from) {
  std::uint64_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

void store(std::byte* to, std::uint64_t value) { std::memcpy(to, &value, sizeof value); }

}  // namespace

Deques::Deques(std::span<std::byte> memory, const DequeLayout& layout)
    : memory_(memory), layout_(layout) {
  assert(memory.size() >= layout.bytes() && std::has_single_bit(layout.capacity));
  std::memset(memory_.data(), 0, layout.bytes());
}

std::byte* Deques::at(unsigned priority, std::uint64_t number) const {
  return memory_.data() + layout_.entry_offset(priority, number);
}

/// Looks at the top, which peers may have moved on, but not further than what was ever there.
void Deques::refresh(unsigned priority) {
  End& end = ends_[priority];
  std::byte* place = memory_.data() + DequeLayout::top_offset(priority);
  const std::uint64_t top = load(place);
  if (top == end.top) return;
  if (top < end.top || top > end.highest) {
    store(place, end.top);
    return;
  }
  end.top = top;
  // What thieves know of the entries before is of no use to them any more.
  end.bottom = std::max(end.bottom, top);
  end.highest = end.bottom;
  publish(priority);
}

void Deques::publish(unsigned priority) {
  std::byte* place = memory_.data() + DequeLayout::top_offset(priority);
  store(place, ends_[priority].top);
  store(place + sizeof(std::uint64_t), ends_[priority].bottom);
}

/// The same entries at the same places with other numbers: no CAS of a top read earlier succeeds.
void Deques::renumber(unsigned priority) {
  End& end = ends_[priority];
  end.top += layout_.capacity;
  end.bottom += layout_.capacity;
  end.highest = end.bottom;
  publish(priority);
}

bool Deques::push(unsigned priority, const DequeEntry& entry) {
  refresh(priority);
  End& end = ends_[priority];
  if (end.bottom - end.top >= layout_.capacity) return false;
  // A thief that has read an entry with this number believes it to be gone once it has claimed that
  // one; it takes half of what it saw at most.
  if (end.bottom < end.highest && end.bottom < end.top + half_of(end.highest - end.top)) {
    renumber(priority);
  }
  const auto words = entry.words();
  std::memcpy(at(priority, end.bottom), words.data(), sizeof words);
  ++end.bottom;
  end.highest = std::max(end.highest, end.bottom);
  publish(priority);
  return true;
}

bool Deques::push_oldest(unsigned priority, const DequeEntry& entry) {
  refresh(priority);
  End& end = ends_[priority];
  if (end.bottom - end.top >= layout_.capacity) return false;
  renumber(priority);
  --end.top;
  const auto words = entry.words();
  std::memcpy(at(priority, end.top), words.data(), sizeof words);
  publish(priority);
  return true;
}

std::optional<DequeEntry> Deques::pop(unsigned priority) {
  refresh(priority);
  End& end = ends_[priority];
  if (end.bottom == end.top) return std::nullopt;
  --end.bottom;
  publish(priority);
  return entry_at(priority, end.bottom);
}

DequeEntry Deques::entry_at(unsigned priority, std::uint64_t number) const {
  const std::byte* place = at(priority, number);
  return DequeEntry::from(load(place), load(place + sizeof(std::uint64_t)));
}

std::uint64_t Deques::size(unsigned priority) {
  refresh(priority);
  return ends_[priority].bottom - ends_[priority].top;
}

bool Deques::empty() {
  for (unsigned priority = 0; priority < kPriorityClasses; ++priority) {
    if (size(priority) > 0) return false;
  }
  return true;
}

std::optional<DequeEntry> Deques::oldest(unsigned priority) {
  refresh(priority);
  const End& end = ends_[priority];
  if (end.bottom == end.top) return std::nullopt;
  return entry_at(priority, end.top);
}

void Deques::drop_oldest(unsigned priority) {
  refresh(priority);
  End& end = ends_[priority];
  if (end.bottom == end.top) return;
  ++end.top;
  publish(priority);
}

void Deques::remove_run(std::uint8_t run) {
  for (unsigned priority = 0; priority < kPriorityClasses; ++priority) {
    refresh(priority);
    End& end = ends_[priority];
    std::uint64_t kept = end.top;
    for (std::uint64_t number = end.top; number < end.bottom; ++number) {
      const DequeEntry entry = entry_at(priority, number);
      if (entry.run == run) continue;
      const auto words = entry.words();
      std::memcpy(at(priority, kept++), words.data(), sizeof words);
    }
    if (kept == end.bottom) continue;
    end.bottom = kept;
    renumber(priority);
  }
}

std::optional<OldestEntries> oldest_entries(const DequeHead& head, const DequeLayout& layout) {
  for (unsigned priority = 0; priority < kPriorityClasses; ++priority) {
    const std::uint64_t size = head[priority].size();
    if (size == 0 || size > layout.capacity) continue;
    const std::uint64_t top = head[priority].top;
    return OldestEntries{.priority = priority,
                         .top = top,
                         .size = size,
                         .in_a_row = std::min(size, layout.capacity - top % layout.capacity)};
  }
  return std::nullopt;
}

}  // namespace rockhopper::dag
