// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Ready nodes, and who gets them.
#include <algorithm>
#include <cassert>

#include "apps/services/dag/schedule/home_link.h"
#include "apps/services/dag/schedule/worker.h"
#include "apps/services/dag/schedule/worker_state.h"

namespace rockhopper::dag {

// Ready nodes of this worker.

void Worker::push_ready(unsigned priority, const DequeEntry& entry) {
  set_aside_[priority] = 0;
  if (deques_->push(priority, entry)) return;
  counters_.overflowed.add();
  overflow_.push_back({.priority = priority, .entry = entry});
}

/// Others take it from the top, where they look first.
void Worker::set_aside(unsigned priority, const DequeEntry& entry) {
  ++set_aside_[priority];
  if (deques_->push_oldest(priority, entry)) return;
  overflow_.push_back({.priority = priority, .entry = entry});
}

void Worker::refill_deques() {
  while (!overflow_.empty()) {
    const Ready& ready = overflow_.back();
    if (!deques_->push(ready.priority, ready.entry)) return;
    set_aside_[ready.priority] = 0;
    overflow_.pop_back();
  }
}

std::optional<DequeEntry> Worker::pop_ready(unsigned& priority) {
  for (priority = 0; priority < kPriorityClasses; ++priority) {
    // All that are left have been looked at, and are for others.
    if (set_aside_[priority] >= deques_->size(priority)) continue;
    if (auto entry = deques_->pop(priority)) return entry;
  }
  return std::nullopt;
}

const Worker::Run* Worker::run_of(const DequeEntry& entry) const {
  if (entry.run >= runs_.size()) return nullptr;
  const Run& run = runs_[entry.run];
  const std::uint64_t end = entry.address + entry.length;
  if (run.phase != RunPhase::running || entry.node >= run.nodes ||
      entry.length < sizeof(RecordHeader) || end > init_.grant.records_bytes) {
    return nullptr;
  }
  // Of an earlier run that had this slot.
  if (run.records_bytes > 0 && (entry.address < run.records_address ||
                                end > run.records_address + whole_lines(run.records_bytes))) {
    return nullptr;
  }
  return &run;
}

bool Worker::is_of_ended_run(const DequeEntry& entry) const {
  if (entry.run >= runs_.size()) return true;
  const RunPhase phase = runs_[entry.run].phase;
  return phase != RunPhase::none && phase != RunPhase::checking;
}

// Affinities.

bool Worker::has_label(std::uint32_t affinity) const {
  return std::find(config_.labels.begin(), config_.labels.end(), affinity) != config_.labels.end();
}

/// What the label lets hope; the record decides.
bool Worker::label_fits(std::uint32_t label) const {
  constexpr std::uint32_t kMask = kWorkerLabel - 1;
  if (label == 0) return true;
  if ((label & kWorkerLabel) == 0) {
    return std::any_of(config_.labels.begin(), config_.labels.end(),
                       [label](std::uint32_t own) { return (own & kMask) == label; });
  }
  const std::uint32_t worker = label & kMask;
  if (worker == 0 || worker == (me_ & kMask)) return true;
  return std::none_of(board_->workers().begin(), board_->workers().end(),
                      [worker](const WorkerSlot& slot) { return (slot.client & kMask) == worker; });
}

// Slots.

Worker::Slot* Worker::take_slot() {
  if (free_slots_.empty()) {
    auto made = std::make_unique<Slot>(init_.engine, pd_);
    if (!made->words.reserve(kBatch * sizeof(std::uint64_t)) || !made->record.reserve(1024)) {
      return nullptr;
    }
    made->index = static_cast<std::uint32_t>(slots_.size());
    free_slots_.push_back(made->index);
    slots_.push_back(std::move(made));
  }
  Slot& slot = *slots_[free_slots_.back()];
  free_slots_.pop_back();
  ++in_slots_;
  ++active_;
  ++ahead_;
  slot.counted = slot.ahead = true;
  slot.decided = slot.job = slot.stolen = slot.committed = false;
  slot.attempt = 0;
  slot.tries = 0;
  slot.theft = -1;
  slot.input_status = Status::ok;
  slot.arena_request = 0;
  slot.failure.clear();
  slot.due.clear();
  slot.later.clear();
  slot.directed.clear();
  return &slot;
}

void Worker::free_slot(Slot& slot) {
  assert(slot.outstanding == 0 && !slot.job);
  constexpr std::size_t kKept = 1 << 20;
  if (slot.counted) --active_;
  if (slot.ahead) --ahead_;
  slot.counted = slot.ahead = false;
  slot.stage = Stage::free;
  ++slot.generation;
  if (slot.output.capacity() > kKept) slot.output = {};
  for (auto& input : slot.inputs) {
    if (input.capacity() > kKept) input = {};
  }
  --in_slots_;
  free_slots_.push_back(slot.index);
  moved_ = true;
}

// Claims.

/// So many ahead of the executor as it takes to keep it busy: what is claimed, others cannot run.
bool Worker::can_claim() const { return can_take() && ahead_ < wanted_ahead(); }

bool Worker::can_take() const {
  return joined_ && !draining_ && !stopped() && held_ && active_ < config_.window &&
         home_->room() > kLinkReserve;
}

bool Worker::begin(const DequeEntry& entry, unsigned priority, int theft, unsigned number) {
  const Run* run = run_of(entry);
  if (run == nullptr) return false;
  Slot* slot = take_slot();
  if (slot == nullptr) return false;
  // More than can be run soon goes into the own deques as soon as it is claimed.
  if (theft >= 0 && ahead_ > wanted_ahead()) {
    slot->ahead = false;
    --ahead_;
  }
  slot->entry = entry;
  slot->priority = priority;
  slot->run = run->id;
  slot->theft = theft;
  slot->number = number;
  slot->stolen = theft >= 0;
  slot->claimed_ns = now_ns_;
  enter(*slot, entry.label == 0 ? Stage::claiming : Stage::looking);
  return true;
}

bool Worker::claim_ready() {
  bool worked = false;
  while (can_claim()) {
    unsigned priority = 0;
    const auto entry = pop_ready(priority);
    if (!entry) break;
    counters_.popped.add();
    worked = true;
    if (run_of(*entry) == nullptr) {
      if (is_of_ended_run(*entry)) {
        counters_.entries_dropped.add();
      } else {
        // The board will tell.
        set_aside(priority, *entry);
        look(false);
      }
      continue;
    }
    if (!label_fits(entry->label)) {
      set_aside(priority, *entry);
      continue;
    }
    if (!begin(*entry, priority, -1, 0)) {
      push_ready(priority, *entry);
      break;
    }
  }
  return worked;
}

// Stealing: claims come first, and only then what is gone is taken away, so that a ready node is
// always in some living worker's deque until it has been claimed, whoever dies when. Half of what a
// victim has changes sides, as far as it goes: what the thief cannot run soon it makes pending
// again and has in its own deques then, where others find it.

void Worker::on_entries(unsigned attempt, unsigned priority, std::span<const DequeEntry> entries,
                        std::uint64_t takeable) {
  Theft& theft = thefts_[attempt];
  theft = {.entries = entries.size()};
  std::uint64_t begun = 0;
  const std::uint64_t most = std::min<std::uint64_t>(takeable, config_.steal_max);
  for (std::size_t i = 0; i < entries.size() && begun < most && can_take(); ++i) {
    if (!label_fits(entries[i].label)) continue;
    ++theft.open;
    if (begin(entries[i], priority, static_cast<int>(attempt), static_cast<unsigned>(i))) {
      ++begun;
    } else {
      --theft.open;
    }
  }
  theft.told = true;
  if (theft.open == 0) settle(attempt);
}

void Worker::on_empty_handed(unsigned /*attempt*/) {}

void Worker::settle(unsigned attempt) {
  const Theft& theft = thefts_[attempt];
  std::uint64_t gone = 0;
  while (gone < theft.entries && (theft.gone >> gone & 1) != 0) ++gone;
  if (theft.successful) found_work();
  thief_->settle(attempt, gone, theft.successful);
}

/// Who has the node of a slot is known now.
void Worker::decide(Slot& slot, Fate fate) {
  if (slot.decided) return;
  slot.decided = true;
  if (slot.theft < 0) {
    if (fate == Fate::left) set_aside(slot.priority, slot.entry);
    return;
  }
  Theft& theft = thefts_[static_cast<std::size_t>(slot.theft)];
  if (fate != Fate::left) theft.gone |= std::uint64_t{1} << slot.number;
  if (fate == Fate::won) theft.successful = true;
  if (--theft.open == 0 && theft.told) settle(static_cast<unsigned>(slot.theft));
}

}  // namespace rockhopper::dag
