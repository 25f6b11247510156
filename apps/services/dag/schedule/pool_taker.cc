// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/pool_taker.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>

namespace rockhopper::dag {
namespace {

/// In the memory: what the CAS has found, then entries.
constexpr std::size_t kEntriesOffset = 64;

}  // namespace

PoolTaker::PoolTaker(HomeLink& home, const Grant& grant, std::uint64_t wr_id, std::uint64_t most,
                     LocalMemory& memory, WorkerCounters& counters)
    : home_(home),
      grant_(grant),
      wr_id_(wr_id),
      most_(std::min<std::uint64_t>(most, kEntriesMax)),
      memory_(memory),
      counters_(counters) {}

Expected<void> PoolTaker::set_up() {
  return memory_.reserve(kEntriesOffset + kEntriesMax * DequeEntry::kSize);
}

void PoolTaker::take(const DequeHead& ends, const BoardLayout& layout) {
  if (count_ > 0 || home_.room() < 2) return;
  const auto oldest = oldest_entries(ends, layout.pool());
  if (!oldest) return;
  taking_ = *oldest;
  count_ = std::min({half_of(oldest->size), most_, oldest->in_a_row});
  // What is READ stays so until the top has passed over it.
  home_.read(wr_id_, grant_.application_key,
             layout.pool_offset() + layout.pool().entry_offset(oldest->priority, oldest->top),
             memory_, memory_.data() + kEntriesOffset,
             static_cast<std::uint32_t>(count_ * DequeEntry::kSize), false);
  home_.compare_swap(wr_id_, grant_.application_key,
                     layout.pool_offset() + DequeLayout::top_offset(oldest->priority), oldest->top,
                     oldest->top + count_, memory_, memory_.data(), true);
}

void PoolTaker::on_completion(ReadyNodes& ready) {
  assert(count_ > 0);
  const std::uint64_t count = std::exchange(count_, 0);
  std::uint64_t found = 0;
  std::memcpy(&found, memory_.data(), sizeof found);
  if (found != taking_.top) return counters_.pool_lost.add();
  counters_.pool_takes.add();
  counters_.pool_entries.add(count);
  // The first one is to be popped first.
  for (std::uint64_t i = count; i-- > 0;) {
    std::array<std::uint64_t, 2> words;
    std::memcpy(words.data(), memory_.data() + kEntriesOffset + i * DequeEntry::kSize,
                sizeof words);
    ready.push({.priority = taking_.priority, .entry = DequeEntry::from(words[0], words[1])});
  }
}

}  // namespace rockhopper::dag
