// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/board_writer.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>

namespace rockhopper::dag {
namespace {

std::atomic_ref<std::uint64_t> word_at(std::span<std::byte> memory, std::uint64_t offset) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(memory.data() + offset));
}

}  // namespace

BoardWriter::BoardWriter(std::span<std::byte> memory, const BoardLayout& layout)
    : memory_(memory),
      layout_(layout),
      run_sequences_(layout.runs),
      worker_sequences_(layout.workers) {
  assert(memory.size() >= layout.bytes());
  std::memset(memory.data(), 0, layout.bytes());
  const BoardHead head{
      .runs = layout.runs, .workers = layout.workers, .pool_entries = layout.pool_entries};
  std::memcpy(memory.data(), &head, sizeof head);
}

std::span<std::byte> BoardWriter::pool() const {
  return memory_.subspan(layout_.pool_offset(), layout_.pool().bytes());
}

void BoardWriter::bump_generation() {
  word_at(memory_, offsetof(BoardHead, generation)).store(++generation_);
}

/// Odd, then the slot, then even: a READ whose answer is made in several pieces shows whether all
/// of them are of one state.
void BoardWriter::write(std::uint64_t offset, std::span<const std::byte> slot,
                        std::uint64_t& sequence) {
  word_at(memory_, offset).store(++sequence);
  constexpr std::size_t kSequence = sizeof(std::uint64_t);
  std::memcpy(memory_.data() + offset + kSequence, slot.data() + kSequence,
              slot.size() - kSequence);
  word_at(memory_, offset).store(++sequence);
  bump_generation();
}

void BoardWriter::show(std::uint32_t slot, RunSlot run) {
  run.completed = completed(slot);
  write(layout_.run_offset(slot), std::as_bytes(std::span(&run, 1)), run_sequences_[slot]);
}

void BoardWriter::show(std::uint32_t slot, WorkerSlot worker) {
  write(layout_.worker_offset(slot), std::as_bytes(std::span(&worker, 1)), worker_sequences_[slot]);
}

std::uint64_t BoardWriter::completed(std::uint32_t slot) const {
  return word_at(memory_, layout_.run_offset(slot) + kRunCompletedOffset).load();
}

void BoardWriter::set_completed(std::uint32_t slot, std::uint64_t nodes) {
  word_at(memory_, layout_.run_offset(slot) + kRunCompletedOffset).store(nodes);
}

void put_text(std::string_view text, std::span<char> out) {
  const std::size_t length = std::min(text.size(), out.size() - 1);
  std::fill(out.begin(), out.end(), '\0');
  std::transform(text.begin(), text.begin() + length, out.begin(),
                 [](char c) { return c >= ' ' && c <= '~' ? c : '?'; });
}

}  // namespace rockhopper::dag
