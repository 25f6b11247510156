// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What the board says, the pool, and looking for work.
#include <algorithm>
#include <array>
#include <cstring>

#include "apps/services/dag/schedule/home_link.h"
#include "apps/services/dag/schedule/worker.h"
#include "apps/services/dag/schedule/worker_state.h"

namespace rockhopper::dag {
namespace {

constexpr std::size_t kPoolEntriesAtOnce = 64;
/// Of the pool's memory: what FETCH_ADDs find that nobody asks for, what the CAS found, entries.
constexpr std::size_t kPoolFoundOffset = 64;
constexpr std::size_t kPoolEntriesOffset = 128;

}  // namespace

void Worker::look(bool runs) {
  if (stopped() || !board_->look(client_.renewals(init_.home), runs)) return;
  // At least once for each renewal of the lease, which the view holds up otherwise.
  next_look_ns_ = now_ns_ + std::min(config_.board_ns, init_.grant.lease_ns / 16);
}

void Worker::on_board(BoardView::Seen seen) {
  switch (seen) {
    case BoardView::Seen::nothing:
      return;
    case BoardView::Seen::bad:
      return lose(Status::damaged);
    case BoardView::Seen::changed:
      follow_runs();
      thief_->set_victims(board_->workers(), me_, init_.home_av);
      set_aside_.fill(0);
      moved_ = true;
      break;
    case BoardView::Seen::same:
      break;
  }
  hold_lease();
  if (!board_->proved()) return look(false);
  look_at_pool();
}

/// What has been claimed under it, and all entries of the own deques, are of runs that are on the
/// board still: their memory is not given to others before the board has been READ again. Claims
/// that are under way when the next look begins are executed before it, as all is one stream.
void Worker::hold_lease() {
  const auto proved = board_->proved();
  if (!proved || proved == held_) return;
  if (!client_.hold(init_.home, *proved)) return;
  if (held_) client_.unhold(init_.home, *held_);
  held_ = proved;
}

void Worker::forget_run(std::uint8_t run) {
  deques_->remove_run(run);
  std::erase_if(overflow_, [run](const Ready& ready) { return ready.entry.run == run; });
}

void Worker::follow_runs() {
  runs_.resize(board_->runs().size());
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const BoardView::Run& seen = board_->runs()[i];
    Run& run = runs_[i];
    const bool another = run.id != seen.id;
    if (another) {
      if (run.id != 0) forget_run(static_cast<std::uint8_t>(i));
      const bool adding = run.adding;
      run = {.id = seen.id, .adding = adding};
      run.arenas.resize(init_.outputs.servers());
    }
    const bool ended = run.phase == RunPhase::running && seen.phase != RunPhase::running;
    run.phase = seen.phase;
    run.priority = seen.priority;
    run.nodes = seen.nodes;
    run.first_incarnation = seen.first_incarnation;
    run.records_address = seen.records_address;
    run.records_bytes = seen.records_bytes;
    run.name = seen.name;
    if (ended) forget_run(static_cast<std::uint8_t>(i));
  }
  std::erase_if(prepared_, [this](const Prepared& one) { return !is_wanted(*slots_[one.slot]); });
  std::make_heap(prepared_.begin(), prepared_.end());
  for (const auto& slot : slots_) {
    if (is_wanted(*slot)) continue;
    if (slot->stage == Stage::running) {
      init_.executor.abandon(slot->ticket());
      give_up(*slot);
    } else if (slot->stage == Stage::prepared) {
      give_up(*slot);
    }
  }
}

bool Worker::is_wanted(const Slot& slot) const {
  const Run& run = runs_[slot.entry.run];
  return run.id == slot.run && run.phase == RunPhase::running;
}

// Looking for work.

bool Worker::hungry() {
  if (!can_claim() || !overflow_.empty()) return false;
  for (unsigned priority = 0; priority < kPriorityClasses; ++priority) {
    if (deques_->size(priority) > set_aside_[priority]) return false;
  }
  return true;
}

void Worker::seek() {
  if (now_ns_ < next_seek_ns_ || !hungry()) return;
  if (!board_->looking()) {
    counters_.pool_looks.add();
    look(false);
  }
  if (config_.steals && thief_->start(now_ns_)) moved_ = true;
  // All of them once before it gets slower.
  if (++vain_ > thief_->victim_count()) {
    vain_ = 0;
    idle_ns_ = std::min(2 * idle_ns_, config_.idle_max_ns);
  }
  next_seek_ns_ = now_ns_ + idle_ns_;
}

void Worker::found_work() {
  vain_ = 0;
  idle_ns_ = config_.idle_min_ns;
  next_seek_ns_ = now_ns_;
}

/// Takes entries from the pool first: a worker that has been fenced cannot, and what a lost one had
/// taken is put back by the home.
void Worker::look_at_pool() {
  if (pool_busy_ || !hungry() || home_->room() < 2) return;
  const DequeLayout layout = board_->layout().pool();
  for (unsigned priority = 0; priority < kPriorityClasses; ++priority) {
    const DequeEnds& ends = board_->pool()[priority];
    if (ends.size() == 0 || ends.size() > layout.capacity) continue;
    const std::uint64_t most = std::min<std::uint64_t>(config_.pool_max, kPoolEntriesAtOnce);
    pool_priority_ = priority;
    pool_top_ = ends.top;
    pool_count_ =
        std::min({half_of(ends.size()), most, layout.capacity - ends.top % layout.capacity});
    const std::uint64_t pool = board_->layout().pool_offset();
    // What is READ stays so until the top has passed over it.
    home_->read(wr_id_of(WrKind::pool, 0), init_.grant.application_key,
                pool + layout.entry_offset(priority, pool_top_), *pool_memory_,
                pool_memory_->data() + kPoolEntriesOffset,
                static_cast<std::uint32_t>(pool_count_ * DequeEntry::kSize), false);
    home_->compare_swap(wr_id_of(WrKind::pool, 0), init_.grant.application_key,
                        pool + DequeLayout::top_offset(priority), pool_top_,
                        pool_top_ + pool_count_, *pool_memory_,
                        pool_memory_->data() + kPoolFoundOffset, true);
    pool_busy_ = true;
    return;
  }
}

void Worker::on_pool() {
  pool_busy_ = false;
  found_work();
  std::uint64_t found = 0;
  std::memcpy(&found, pool_memory_->data() + kPoolFoundOffset, sizeof found);
  if (found != pool_top_) return counters_.pool_lost.add();
  counters_.pool_takes.add();
  counters_.pool_entries.add(pool_count_);
  // The first one is to be popped first.
  for (std::uint64_t i = pool_count_; i-- > 0;) {
    std::array<std::uint64_t, 2> words;
    std::memcpy(words.data(), pool_memory_->data() + kPoolEntriesOffset + i * DequeEntry::kSize,
                sizeof words);
    push_ready(pool_priority_, DequeEntry::from(words[0], words[1]));
  }
}

}  // namespace rockhopper::dag
