// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/board_view.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace rockhopper::dag {
namespace {

constexpr std::uint32_t kPoolEntriesMax = 1u << 24;

}  // namespace

BoardView::BoardView(HomeLink& link, const Grant& grant, std::uint32_t path_mtu,
                     WorkerCounters& counters, std::uint64_t wr_id, LocalMemory& memory)
    : link_(link),
      grant_(grant),
      path_mtu_(path_mtu),
      counters_(counters),
      wr_id_(wr_id),
      memory_(memory) {}

void BoardView::read(std::uint64_t address, std::uint32_t length) {
  link_.read(wr_id_, grant_.application_key, address, memory_, memory_.data() + address, length,
             true);
  ++outstanding_;
}

/// Slots in one packet are of one moment.
void BoardView::read_slots(std::uint64_t from, std::uint64_t to, std::uint32_t slot_bytes) {
  const std::uint32_t step = std::max(slot_bytes, path_mtu_ / slot_bytes * slot_bytes);
  for (; from < to; from += step) {
    read(from, static_cast<std::uint32_t>(std::min<std::uint64_t>(step, to - from)));
  }
}

bool BoardView::look(std::uint64_t renewals, bool runs) {
  if (outstanding_ > 0) return false;
  began_ = renewals;
  reads_all_ = false;
  head_taken_ = false;
  read(0, kHeadBytes);
  if (runs && known_) {
    for (std::uint32_t i = 0; i < layout_.runs; ++i) {
      if (runs_[i].phase == RunPhase::running) read(layout_.run_offset(i), sizeof(RunSlot));
    }
  }
  return true;
}

bool BoardView::take_layout(const BoardHead& head) {
  if (head.magic != kBoardMagic || head.version != kBoardVersion || head.runs == 0 ||
      head.runs > kBoardRunsMax || head.workers == 0 || head.workers > kBoardWorkersMax ||
      !std::has_single_bit(head.pool_entries) || head.pool_entries > kPoolEntriesMax) {
    return false;
  }
  const BoardLayout layout{
      .runs = head.runs, .workers = head.workers, .pool_entries = head.pool_entries};
  if (layout.bytes() > grant_.application_bytes) return false;
  if (known_) {
    return layout.runs == layout_.runs && layout.workers == layout_.workers &&
           layout.pool_entries == layout_.pool_entries;
  }
  layout_ = layout;
  if (!memory_.reserve(layout.bytes())) return false;
  runs_.resize(layout.runs);
  workers_.resize(layout.workers);
  known_ = true;
  seen_ = ~head.generation;
  generation_ = ~head.generation;
  // What was READ is in the memory no more.
  std::memcpy(memory_.data(), &head, sizeof head);
  return true;
}

BoardView::Seen BoardView::on_completion(std::uint64_t renewals) {
  --outstanding_;
  if (!head_taken_) {
    head_taken_ = true;
    BoardHead head;
    std::memcpy(&head, memory_.data(), sizeof head);
    std::memcpy(pool_.data(), memory_.data() + sizeof head, sizeof pool_);
    if (!take_layout(head)) {
      counters_.board_bad.add();
      return Seen::bad;
    }
    seen_ = head.generation;
  }
  if (outstanding_ > 0) return Seen::nothing;
  if (reads_all_) {
    if (!take_slots()) {
      // The server was at it, or somebody has scribbled: with the next look again.
      counters_.board_bad.add();
      return Seen::same;
    }
    generation_ = seen_;
    proved_ = began_;
    return Seen::changed;
  }
  if (seen_ == generation_) {
    proved_ = began_;
    for (std::uint32_t i = 0; i < layout_.runs; ++i) {
      if (runs_[i].phase != RunPhase::running) continue;
      RunSlot slot;
      std::memcpy(&slot, memory_.data() + layout_.run_offset(i), sizeof slot);
      if (slot.id == runs_[i].id) runs_[i].completed = slot.completed;
    }
    return Seen::same;
  }
  counters_.board_reads.add();
  began_ = renewals;
  reads_all_ = true;
  read_slots(layout_.run_offset(0), layout_.run_offset(layout_.runs), sizeof(RunSlot));
  read_slots(layout_.worker_offset(0), layout_.bytes(), sizeof(WorkerSlot));
  return Seen::nothing;
}

bool BoardView::take_slots() {
  for (std::uint32_t i = 0; i < layout_.runs; ++i) {
    RunSlot slot;
    std::memcpy(&slot, memory_.data() + layout_.run_offset(i), sizeof slot);
    if (slot.sequence % 2 != 0 || slot.phase > RunPhase::ending ||
        slot.priority >= kPriorityClasses || slot.records_bytes > grant_.records_bytes ||
        slot.records_address > grant_.records_bytes - slot.records_bytes) {
      return false;
    }
    runs_[i] = {.id = slot.id,
                .phase = slot.phase,
                .priority = slot.priority,
                .nodes = slot.nodes,
                .completed = slot.completed,
                .first_incarnation = slot.first_incarnation,
                .records_address = slot.records_address,
                .records_bytes = slot.records_bytes,
                .name = std::string(text_of(slot.name))};
  }
  for (std::uint32_t i = 0; i < layout_.workers; ++i) {
    std::memcpy(&workers_[i], memory_.data() + layout_.worker_offset(i), sizeof(WorkerSlot));
    if (workers_[i].sequence % 2 != 0) return false;
  }
  return true;
}

bool BoardView::has_worker(std::uint32_t client) const {
  return std::any_of(workers_.begin(), workers_.end(), [client](const WorkerSlot& slot) {
    return slot.client == client && slot.client != 0;
  });
}

}  // namespace rockhopper::dag
