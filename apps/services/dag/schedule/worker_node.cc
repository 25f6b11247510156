// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// A node's way to the executor: claim, inputs, and what can go wrong.
#include <algorithm>
#include <cassert>
#include <cstring>

#include <fmt/format.h>

#include "apps/services/dag/schedule/home_link.h"
#include "apps/services/dag/schedule/home_request.h"
#include "apps/services/dag/schedule/worker.h"
#include "apps/services/dag/schedule/worker_state.h"

namespace rockhopper::dag {
namespace {

/// Attempts of a node that begin while it is being claimed.
constexpr unsigned kClaimTries = 4;

}  // namespace

// Stages.

void Worker::enter(Slot& slot, Stage stage) {
  assert(slot.outstanding == 0);
  slot.stage = stage;
  slot.posted = 0;
  step(slot);
}

void Worker::later(Slot& slot) {
  if (slot.queued) return;
  slot.queued = true;
  retry_.push_back(slot.index);
}

/// Posts what the stage has to post; when that is done and complete, goes on.
void Worker::step(Slot& slot) {
  if (stopped()) return;
  const Stage stage = slot.stage;
  const std::uint32_t generation = slot.generation;
  const bool all = post(slot);
  if (slot.stage != stage || slot.generation != generation) return;
  if (!all) {
    later(slot);
  } else if (slot.outstanding == 0) {
    done(slot);
  }
}

/// False: there is no room for all of it now.
bool Worker::post(Slot& slot) {
  switch (slot.stage) {
    case Stage::looking:
      return post_record(slot, false);
    case Stage::tracing:
      return post_trace(slot);
    case Stage::claiming:
      return post_record(slot, true);
    case Stage::placing:
      return post_places(slot);
    case Stage::reading:
      return post_inputs(slot);
    case Stage::storing:
      return post_output(slot);
    case Stage::committing:
      return post_commit(slot);
    case Stage::successors:
      return post_successors(slot);
    case Stage::directing:
      return post_directed(slot);
    case Stage::releasing:
      return post_release(slot);
    case Stage::returning:
      return post_return(slot);
    case Stage::failing:
      return post_failure(slot);
    case Stage::free:
    case Stage::prepared:
    case Stage::running:
    case Stage::waiting:
    case Stage::abandoned:
      return true;
  }
  return true;
}

void Worker::done(Slot& slot) {
  switch (slot.stage) {
    case Stage::looking:
      return on_looked(slot);
    case Stage::tracing:
      return on_traced(slot);
    case Stage::claiming:
      return on_claimed(slot);
    case Stage::placing:
      return enter(slot, Stage::reading);
    case Stage::reading:
      return on_inputs(slot);
    case Stage::committing:
    case Stage::successors:
      return on_successors(slot);
    case Stage::directing:
      return on_directed(slot);
    case Stage::releasing:
      return on_released(slot);
    case Stage::returning:
      return on_returned(slot);
    case Stage::storing:
    case Stage::failing:
    case Stage::free:
    case Stage::prepared:
    case Stage::running:
    case Stage::waiting:
    case Stage::abandoned:
      return;
  }
}

// The record.

/// Its READ, behind the CAS if it is claimed: what is READ then cannot change any more.
bool Worker::post_record(Slot& slot, bool claim) {
  if (slot.posted > 0) return true;
  if (home_->room() < 2) return false;
  if (!slot.record.reserve(slot.entry.length)) {
    decide(slot, Fate::left);
    free_slot(slot);
    return true;
  }
  const std::uint64_t wr_id = wr_id_of(WrKind::slot, slot.index);
  if (claim) {
    counters_.claims.add();
    home_->compare_swap(
        wr_id, init_.grant.records_key, slot.word_address(kStateWord),
        NodeState{.phase = NodePhase::pending, .attempt = slot.attempt}.bits(),
        NodeState{.phase = NodePhase::running, .attempt = slot.attempt, .owner = me_}.bits(),
        slot.words, slot.words.data(), false);
  }
  home_->read(wr_id, init_.grant.records_key, slot.entry.address, slot.record, slot.record.data(),
              slot.entry.length, true);
  slot.posted = 1;
  ++slot.outstanding;
  return true;
}

/// False: it is not that node of that run, or is damaged.
bool Worker::parse_record(Slot& slot) {
  const Run& run = runs_[slot.entry.run];
  const RecordView record = examine_record(slot.record.bytes().first(slot.entry.length),
                                           run.first_incarnation + slot.entry.node, std::nullopt);
  if (record.verdict != Verdict::match || !parse_node(record.data, slot.view) ||
      slot.view.node != slot.entry.node) {
    return false;
  }
  const std::string_view key(
      reinterpret_cast<const char*>(slot.record.data()) + sizeof(RecordHeader),
      record.header.key_length);
  if (key.size() <= run.name.size() + 1 || !key.starts_with(run.name) ||
      key[run.name.size()] != '/') {
    return false;
  }
  slot.run_name = key.substr(0, run.name.size());
  slot.key = key.substr(run.name.size() + 1);
  const auto in_run = [&](const NodeLink& link) { return is_in_run(slot, link); };
  return std::all_of(slot.view.predecessors.begin(), slot.view.predecessors.end(), in_run) &&
         std::all_of(slot.view.successors.begin(), slot.view.successors.end(), in_run);
}

bool Worker::is_in_run(const Slot& slot, const NodeLink& link) const {
  return link.address % kRecordAlignment == 0 && link.length < (1u << 30) - 64 &&
         run_of({.address = link.address,
                 .length = static_cast<std::uint32_t>(whole_lines(link.length)),
                 .node = link.node,
                 .run = slot.entry.run}) != nullptr;
}

// Affinity: before a node is claimed, its record tells whether this worker may run it.

void Worker::on_looked(Slot& slot) {
  counters_.looked_at.add();
  if (!is_wanted(slot) || !parse_record(slot)) {
    // If it is no node any more, the claim will find that out too.
    if (!is_wanted(slot)) {
      decide(slot, Fate::gone);
      return free_slot(slot);
    }
    return enter(slot, Stage::claiming);
  }
  slot.sources.clear();
  for (std::uint32_t i = 0; i < slot.view.predecessors.size(); ++i) {
    const NodeLink& link = slot.view.predecessors[i];
    if ((link.constraints.set & kAffinity) == 0) continue;
    if (link.constraints.affinity == kSameWorker) {
      slot.sources.push_back(i);
    } else if (!has_label(link.constraints.affinity)) {
      counters_.unfit.add();
      decide(slot, Fate::left);
      return free_slot(slot);
    }
  }
  if (slot.sources.empty()) return enter(slot, Stage::claiming);
  if (!slot.words.reserve(slot.sources.size() * sizeof(std::uint64_t))) {
    decide(slot, Fate::left);
    return free_slot(slot);
  }
  enter(slot, Stage::tracing);
}

bool Worker::post_trace(Slot& slot) {
  for (; slot.posted < slot.sources.size(); ++slot.posted) {
    if (home_->room() <= kLinkReserve) return false;
    const NodeLink& link = slot.view.predecessors[slot.sources[slot.posted]];
    home_->read(wr_id_of(WrKind::slot, slot.index), init_.grant.records_key,
                word_address(link.address, kStateWord), slot.words,
                slot.words.data() + 8 * slot.posted, 8, true);
    ++slot.outstanding;
  }
  return true;
}

/// Anybody may, if the worker that it has to be is not there any more.
void Worker::on_traced(Slot& slot) {
  for (std::size_t i = 0; i < slot.sources.size(); ++i) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, slot.words.data() + 8 * i, sizeof bits);
    const NodeState state = NodeState::from(bits);
    if (state.owner != me_ && board_->has_worker(state.owner)) {
      counters_.unfit.add();
      decide(slot, Fate::left);
      return free_slot(slot);
    }
  }
  enter(slot, Stage::claiming);
}

// The claim (DG-35).

void Worker::on_claimed(Slot& slot) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, slot.words.data(), sizeof bits);
  const NodeState found = NodeState::from(bits);
  const NodeState expected{.phase = NodePhase::pending, .attempt = slot.attempt};
  if (found != expected) {
    if (found.phase == NodePhase::pending && found.owner == 0 && ++slot.tries < kClaimTries) {
      counters_.claims_repeated.add();
      slot.attempt = found.attempt;
      return enter(slot, Stage::claiming);
    }
    counters_.claims_gone.add();
    decide(slot, found.phase == NodePhase::pending ? Fate::left : Fate::gone);
    return free_slot(slot);
  }
  counters_.claims_won.add();
  decide(slot, Fate::won);
  if (!is_wanted(slot)) return give_up(slot);
  const RecordView head =
      examine_head(slot.record.bytes().first(slot.entry.length),
                   runs_[slot.entry.run].first_incarnation + slot.entry.node, std::nullopt);
  if (head.verdict != Verdict::match) {
    // The run has been dropped, and its memory rests.
    counters_.claims_stale.add();
    return free_slot(slot);
  }
  if (!parse_record(slot)) return fail_node(slot, "its record is damaged");
  if (head.header.control[kDependenciesWord] != 0) {
    counters_.claims_early.add();
    return give_back(slot);
  }
  if (!slot.ahead) {
    if (ahead_ >= wanted_ahead()) {
      counters_.transferred.add();
      return give_back(slot);
    }
    slot.ahead = true;
    ++ahead_;
  }
  begin_inputs(slot);
}

// Inputs.

void Worker::begin_inputs(Slot& slot) {
  slot.sources.clear();
  for (std::uint32_t i = 0; i < slot.view.predecessors.size(); ++i) {
    if ((slot.view.predecessors[i].constraints.set & kData) != 0) slot.sources.push_back(i);
  }
  const std::size_t count = slot.sources.size();
  if (slot.inputs.size() < count) slot.inputs.resize(count);
  slot.has_input.assign(count, false);
  std::size_t there = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto cached = cache_.find(slot.run, slot.view.predecessors[slot.sources[i]].node);
    if (!cached) continue;
    counters_.inputs_cached.add();
    slot.inputs[i].assign(cached->begin(), cached->end());
    slot.has_input[i] = true;
    ++there;
  }
  if (there == count) return prepare(slot);
  if (!slot.words.reserve(count * 2 * sizeof(std::uint64_t))) {
    return fail_node(slot, "no memory for its inputs");
  }
  enter(slot, Stage::placing);
}

bool Worker::post_places(Slot& slot) {
  for (; slot.posted < slot.sources.size(); ++slot.posted) {
    if (slot.has_input[slot.posted]) continue;
    if (home_->room() <= kLinkReserve) return false;
    const NodeLink& link = slot.view.predecessors[slot.sources[slot.posted]];
    home_->read(wr_id_of(WrKind::slot, slot.index), init_.grant.records_key,
                word_address(link.address, kOutputWord), slot.words,
                slot.words.data() + 16 * slot.posted, 16, true);
    ++slot.outstanding;
  }
  return true;
}

bool Worker::post_inputs(Slot& slot) {
  for (; slot.posted < slot.sources.size() && slot.input_status == Status::ok; ++slot.posted) {
    if (slot.has_input[slot.posted]) continue;
    std::array<std::uint64_t, 2> words;
    std::memcpy(words.data(), slot.words.data() + 16 * slot.posted, sizeof words);
    const OutputPlace place = OutputPlace::from(words[0], words[1]);
    const Started started =
        client_.read(client_.own({.server = place.server,
                                  .entry = {.incarnation = place.incarnation,
                                            .address = place.address,
                                            .length = static_cast<std::uint32_t>(place.length)}}),
                     context(AskKind::input, slot.index, static_cast<std::uint32_t>(slot.posted)));
    switch (started) {
      case Started::yes:
        counters_.inputs_read.add();
        ++slot.outstanding;
        break;
      case Started::no_room:
        return false;
      case Started::invalid:
        slot.input_status = Status::damaged;
        break;
      case Started::unreachable:
        slot.input_status = Status::unreachable;
        break;
    }
  }
  return true;
}

void Worker::on_inputs(Slot& slot) {
  if (!is_wanted(slot)) return give_up(slot);
  if (slot.input_status != Status::ok) {
    return fail_node(slot,
                     fmt::format("an input cannot be read: {}", to_string(slot.input_status)));
  }
  for (std::size_t i = 0; i < slot.sources.size(); ++i) {
    if (slot.has_input[i]) continue;
    cache_.insert(slot.run, slot.view.predecessors[slot.sources[i]].node, slot.inputs[i]);
  }
  prepare(slot);
}

void Worker::prepare(Slot& slot) {
  slot.task_inputs.clear();
  for (std::size_t i = 0; i < slot.sources.size(); ++i) {
    slot.task_inputs.push_back(
        {.key = slot.view.predecessors[slot.sources[i]].key, .bytes = slot.inputs[i]});
  }
  const std::uint64_t took_ns = now_ns_ - slot.claimed_ns;
  prepare_ns_ = prepare_ns_ == 0 ? took_ns : (7 * prepare_ns_ + took_ns) / 8;
  slot.stage = Stage::prepared;
  prepared_.push_back(
      {.priority = slot.priority, .urgency = slot.view.priority, .slot = slot.index});
  std::push_heap(prepared_.begin(), prepared_.end());
  moved_ = true;
}

// Failures.

void Worker::fail_node(Slot& slot, std::string text) {
  counters_.failed.add();
  if (text.size() > kCreateDataMax) text.resize(kCreateDataMax);
  slot.failure = std::move(text);
  if (slot.ahead) --ahead_;
  slot.ahead = false;
  enter(slot, Stage::failing);
}

bool Worker::post_failure(Slot& slot) {
  if (slot.posted > 0) return true;
  if (!is_wanted(slot)) {
    give_up(slot);
    return true;
  }
  const Started started = client_.ask(
      init_.home, static_cast<std::uint8_t>(HomeRequest::node_failed),
      std::as_bytes(std::span(runs_[slot.entry.run].name)), std::as_bytes(std::span(slot.failure)),
      std::uint64_t{slot.entry.node} << 32 | slot.attempt, context(AskKind::failure, slot.index));
  if (started == Started::no_room) return false;
  if (started != Started::yes) {
    lose(Status::unreachable);
    return true;
  }
  slot.posted = 1;
  ++slot.outstanding;
  return true;
}

}  // namespace rockhopper::dag
