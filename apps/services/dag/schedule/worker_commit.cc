// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// A node's output, and what it makes ready; and how nodes are given back.
#include <algorithm>
#include <cassert>
#include <cstring>

#include <fmt/format.h>

#include "apps/services/dag/schedule/home_link.h"
#include "apps/services/dag/schedule/run_group.h"
#include "apps/services/dag/schedule/worker.h"
#include "apps/services/dag/schedule/worker_state.h"

namespace rockhopper::dag {
namespace {

/// Of a request for an arena: for which run, and at which server.
constexpr std::uint32_t arena_number(std::uint64_t run, std::uint16_t server) {
  return static_cast<std::uint32_t>(run & 0xff) << 16 | server;
}

/// Slots that only wait for time, and are not counted in the window.
constexpr std::size_t kWaitingMax = 4096;

}  // namespace

// The output (DG-37): it is there before anybody hears of it.

bool Worker::post_output(Slot& slot) {
  if (slot.posted > 0) return true;
  if (slot.finished_ns == 0) slot.finished_ns = now_ns_;
  if (!is_wanted(slot)) {
    give_up(slot);
    return true;
  }
  if (!slot.failure.empty()) {
    fail_node(slot, std::move(slot.failure));
    return true;
  }
  const auto key =
      std::as_bytes(std::span(slot.run_name.data(), slot.run_name.size() + 1 + slot.key.size()));
  const std::uint16_t server = init_.outputs.server_of(std::as_bytes(std::span(slot.key)));
  Arena& arena = runs_[slot.entry.run].arenas[server];
  if (slot.output.size() > client_.config().buffer_bytes) {
    fail_node(slot, fmt::format("its output of {} bytes is too long for the worker's buffers of {}",
                                slot.output.size(), client_.config().buffer_bytes));
    return true;
  }
  const std::uint64_t bytes =
      whole_lines(record_bytes(key.size(), static_cast<std::uint32_t>(slot.output.size()), 1));
  if (arena.asking) {
    slot.arena_request = arena.requests;
    return false;
  }
  if (bytes > arena.pointer.entry.length || arena.used > arena.pointer.entry.length - bytes) {
    if (slot.arena_request != 0 && slot.arena_request == arena.failed) {
      fail_node(slot, fmt::format("no memory for its output: {}", to_string(arena.why)));
      return true;
    }
    ask_arena(slot, arena, server, bytes);
    return false;
  }
  const Started started = client_.write_record(
      {.arena = arena.pointer, .offset = arena.used, .number = arena.used / Store::kArenaStep}, key,
      slot.output, {.fixed = true}, context(AskKind::output, slot.index));
  switch (started) {
    case Started::yes:
      arena.used += bytes;
      slot.posted = 1;
      ++slot.outstanding;
      return true;
    case Started::no_room:
      return false;
    case Started::invalid:
      fail_node(slot, fmt::format("its output of {} bytes cannot be written", slot.output.size()));
      return true;
    case Started::unreachable:
      fail_node(slot, fmt::format("server {} for its output is gone", server));
      return true;
  }
  return true;
}

/// It belongs to the run, and outlives this worker.
void Worker::ask_arena(Slot& slot, Arena& arena, std::uint16_t server, std::uint64_t bytes) {
  const Started started = client_.allocate_arena(
      server, std::max(whole_lines(config_.arena_bytes), bytes),
      context(AskKind::arena, slot.entry.run, arena_number(slot.run, server)),
      RunGroup(slot.run_name, RunId{slot.run}).bytes());
  if (started == Started::no_room) return;
  slot.arena_request = ++arena.requests;
  if (started != Started::yes) {
    arena.failed = arena.requests;
    arena.why = Status::unreachable;
    return;
  }
  counters_.arenas.add();
  arena.asking = true;
  ++asked_;
}

void Worker::on_arena(std::uint32_t run, std::uint32_t number, const Result& result) {
  const std::size_t server = number & 0xffff;
  // The slot may be another run's now.
  if (run >= runs_.size() || server >= runs_[run].arenas.size() ||
      number != arena_number(runs_[run].id, static_cast<std::uint16_t>(server))) {
    return counters_.unexpected.add();
  }
  Arena& arena = runs_[run].arenas[server];
  if (!arena.asking) return counters_.unexpected.add();
  arena.asking = false;
  if (result.status == Status::ok) {
    arena.pointer = result.pointer;
    arena.used = 0;
  } else {
    arena.failed = arena.requests;
    arena.why = result.status;
  }
}

void Worker::on_stored(Slot& slot, const Result& result) {
  if (result.status != Status::ok) {
    return fail_node(slot,
                     fmt::format("its output cannot be written: {}", to_string(result.status)));
  }
  (result.pointer.server == init_.home ? counters_.outputs_home : counters_.outputs_elsewhere)
      .add();
  counters_.output_bytes.add(slot.output.size());
  slot.place = {.address = result.pointer.entry.address,
                .length = whole_lines(result.pointer.entry.length),
                .incarnation = result.pointer.entry.incarnation,
                .server = result.pointer.server};
  begin_commit(slot);
}

// The commit (DG-34, DG-35, DG-37): where the output is and that the node is done, in one WRITE;
// then the successors. Executed in this order, all of it or what comes first. That the node is
// released is written only when it is known that all successors have been told.

void Worker::begin_commit(Slot& slot) {
  slot.due.clear();
  slot.later.clear();
  for (std::uint32_t i = 0; i < slot.view.successors.size(); ++i) {
    const bool waits = slot.view.successors[i].constraints.not_before_ns > 0;
    (waits ? slot.later : slot.due).push_back(i);
  }
  std::sort(slot.later.begin(), slot.later.end(), [&](std::uint32_t a, std::uint32_t b) {
    return slot.view.successors[a].constraints.not_before_ns >
           slot.view.successors[b].constraints.not_before_ns;
  });
  slot.batch = 0;
  enter(slot, Stage::committing);
}

bool Worker::post_commit(Slot& slot) {
  if (slot.posted > 0) return true;
  if (home_->room() < 2 * kBatch) return false;
  counters_.chains.add();
  const NodeState state{
      .phase = slot.view.successors.empty() ? NodePhase::released : NodePhase::done,
      .attempt = slot.attempt,
      .owner = me_};
  const ControlWords words{state.bits(), 0, slot.place.first(), slot.place.second()};
  home_->write(wr_id_of(WrKind::slot, slot.index), init_.grant.records_key,
               slot.word_address(kStateWord), std::as_bytes(std::span(words)), slot.due.empty());
  if (slot.due.empty()) {
    slot.posted = 1;
    ++slot.outstanding;
    return true;
  }
  slot.stage = Stage::successors;
  return post_successors(slot);
}

/// As many as there is room for the results.
bool Worker::post_successors(Slot& slot) {
  if (slot.batch > 0 || slot.posted >= slot.due.size()) return true;
  const std::size_t count = std::min(kBatch, slot.due.size() - slot.posted);
  if (home_->room() < count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const NodeLink& link = slot.view.successors[slot.due[slot.posted + i]];
    home_->fetch_add(wr_id_of(WrKind::slot, slot.index), init_.grant.records_key,
                     word_address(link.address, kDependenciesWord), ~std::uint64_t{0}, slot.words,
                     slot.words.data() + 8 * i, i + 1 == count);
  }
  counters_.successors.add(count);
  slot.batch = count;
  ++slot.outstanding;
  return true;
}

void Worker::on_successors(Slot& slot) {
  if (!slot.committed) {
    slot.committed = true;
    cache_.insert(slot.run, slot.entry.node, slot.output);
    counters_.nodes.add();
    if (slot.stolen) counters_.nodes_stolen.add();
    report(slot, true);
  }
  for (std::size_t i = 0; i < slot.batch; ++i) {
    std::uint64_t found = 0;
    std::memcpy(&found, slot.words.data() + 8 * i, sizeof found);
    if (found != 1) continue;
    const std::uint32_t successor = slot.due[slot.posted + i];
    const NodeLink& link = slot.view.successors[successor];
    if (link.directed) {
      slot.directed.push_back(successor);
    } else {
      make_ready(slot, link, 0);
    }
  }
  slot.posted += slot.batch;
  slot.batch = 0;
  if (slot.stage == Stage::successors && slot.posted < slot.due.size()) return step(slot);
  go_on(slot);
}

void Worker::go_on(Slot& slot) {
  if (!slot.directed.empty()) return enter(slot, Stage::directing);
  if (!slot.later.empty()) return wait(slot);
  if (slot.view.successors.empty()) return on_released(slot);
  enter(slot, Stage::releasing);
}

void Worker::make_ready(Slot& slot, const NodeLink& link, std::uint32_t label) {
  counters_.pushed.add();
  push_ready(slot.priority, {.address = link.address,
                             .length = static_cast<std::uint32_t>(whole_lines(link.length)),
                             .node = link.node,
                             .label = label,
                             .run = slot.entry.run});
}

// Successors with an affinity: their records tell for whom they are.

/// What others can see without the record. kWorkerLabel alone: some worker, to be looked at.
std::uint32_t Worker::label_of(const NodeView& view, NodeIndex finished) const {
  constexpr std::uint32_t kMask = kWorkerLabel - 1;
  std::uint32_t label = kWorkerLabel;
  for (const NodeLink& link : view.predecessors) {
    if ((link.constraints.set & kAffinity) == 0) continue;
    if (link.constraints.affinity == kSameWorker) {
      return link.node == finished ? kWorkerLabel | (me_ & kMask) : kWorkerLabel;
    }
    if ((link.constraints.affinity & kMask) != 0) label = link.constraints.affinity & kMask;
  }
  return label;
}

bool Worker::post_directed(Slot& slot) {
  if (slot.posted > 0) return true;
  const NodeLink& link = slot.view.successors[slot.directed.back()];
  if (home_->room() < 1 || !slot.other.reserve(whole_lines(link.length))) return false;
  home_->read(wr_id_of(WrKind::slot, slot.index), init_.grant.records_key, link.address, slot.other,
              slot.other.data(), link.length, true);
  slot.posted = 1;
  ++slot.outstanding;
  return true;
}

void Worker::on_directed(Slot& slot) {
  const NodeLink& link = slot.view.successors[slot.directed.back()];
  slot.directed.pop_back();
  const RecordView record =
      examine_record(slot.other.bytes().first(link.length), link.incarnation, std::nullopt);
  const bool good = record.verdict == Verdict::match && parse_node(record.data, scratch_);
  make_ready(slot, link, good ? label_of(scratch_, slot.entry.node) : kWorkerLabel);
  go_on(slot);
}

// Edges that want time to pass after the node's end.

void Worker::wait(Slot& slot) {
  if (slot.counted && in_slots_ - active_ < kWaitingMax) {
    slot.counted = false;
    --active_;
  }
  slot.stage = Stage::waiting;
  const NodeLink& next = slot.view.successors[slot.later.back()];
  delayed_.push_back({.due_ns = slot.finished_ns + next.constraints.not_before_ns,
                      .slot = slot.index,
                      .generation = slot.generation});
  std::push_heap(delayed_.begin(), delayed_.end());
}

bool Worker::wake_delayed() {
  bool worked = false;
  while (!delayed_.empty() && delayed_.front().due_ns <= now_ns_) {
    const Delayed next = delayed_.front();
    std::pop_heap(delayed_.begin(), delayed_.end());
    delayed_.pop_back();
    Slot& slot = *slots_[next.slot];
    if (slot.generation != next.generation || slot.stage != Stage::waiting) continue;
    slot.due.clear();
    while (!slot.later.empty() &&
           slot.finished_ns + slot.view.successors[slot.later.back()].constraints.not_before_ns <=
               now_ns_) {
      slot.due.push_back(slot.later.back());
      slot.later.pop_back();
    }
    enter(slot, Stage::successors);
    worked = true;
  }
  return worked;
}

// The end.

bool Worker::post_release(Slot& slot) {
  if (home_->room() < 1) return false;
  const std::uint64_t bits =
      NodeState{.phase = NodePhase::released, .attempt = slot.attempt, .owner = me_}.bits();
  home_->write(wr_id_of(WrKind::slot, slot.index), init_.grant.records_key,
               slot.word_address(kStateWord), std::as_bytes(std::span(&bits, 1)), false);
  return true;
}

void Worker::on_released(Slot& slot) {
  ++runs_[slot.entry.run].to_add;
  free_slot(slot);
}

/// Behind the WRITEs of the states: who sees that all are counted finds all released (DG-40).
void Worker::add_completed() {
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    Run& run = runs_[i];
    if (run.to_add == 0 || run.adding || home_->room() < 1) continue;
    home_->fetch_add(
        wr_id_of(WrKind::completed, i), init_.grant.application_key,
        board_->layout().run_offset(static_cast<std::uint32_t>(i)) + kRunCompletedOffset,
        run.to_add, *pool_memory_, pool_memory_->data(), true);
    run.to_add = 0;
    run.adding = true;
  }
}

// Nodes that this worker has claimed and does not run.

/// For anybody: its state is pending again, and the node in the own deque if it is ready still.
/// Whoever makes it ready after that finds it pending.
void Worker::give_back(Slot& slot) {
  if (slot.ahead) --ahead_;
  slot.ahead = false;
  slot.returned = NodePhase::pending;
  enter(slot, Stage::returning);
}

void Worker::give_up(Slot& slot) {
  counters_.given_up.add();
  if (slot.ahead) --ahead_;
  slot.ahead = false;
  slot.returned = NodePhase::canceled;
  enter(slot, Stage::returning);
}

bool Worker::post_return(Slot& slot) {
  if (slot.posted > 0) return true;
  const bool pending = slot.returned == NodePhase::pending;
  if (home_->room() < 2) return false;
  // The run is there as long as a node of it is running.
  const std::uint64_t bits = NodeState{.phase = slot.returned, .attempt = slot.attempt}.bits();
  const std::uint64_t wr_id = wr_id_of(WrKind::slot, slot.index);
  home_->write(wr_id, init_.grant.records_key, slot.word_address(kStateWord),
               std::as_bytes(std::span(&bits, 1)), !pending);
  if (pending) {
    home_->read(wr_id, init_.grant.records_key, slot.word_address(kDependenciesWord), slot.words,
                slot.words.data(), 8, true);
  }
  slot.posted = 1;
  ++slot.outstanding;
  return true;
}

void Worker::on_returned(Slot& slot) {
  if (slot.returned == NodePhase::pending) {
    std::uint64_t dependencies = 0;
    std::memcpy(&dependencies, slot.words.data(), sizeof dependencies);
    if (dependencies == 0) push_ready(slot.priority, slot.entry);
  } else {
    report(slot, false);
  }
  if (slot.job) {
    slot.stage = Stage::abandoned;
    return;
  }
  free_slot(slot);
}

void Worker::report(const Slot& slot, bool committed) {
  if (slot.end_ns == 0) return;
  init_.listener.on_node({.run = slot.run_name,
                          .key = slot.key,
                          .start_ns = slot.start_ns,
                          .end_ns = slot.end_ns,
                          .stolen = slot.stolen,
                          .attempts = slot.attempt + 1,
                          .committed = committed});
}

}  // namespace rockhopper::dag
