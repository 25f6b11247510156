// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/run.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "apps/services/dag/schedule/entry_label.h"
#include "apps/services/dag/schedule/run_group.h"

namespace rockhopper::dag {
namespace {

/// Between two looks at what workers have done.
constexpr std::uint64_t kLookNs = 100'000;

}  // namespace

Run::Run(const Site& site, const Init& init) : site_(site), init_(init), name_(init.name) {
  init_.name = name_;
  site_.board.set_completed(init_.slot, 0);
  show();
}

RunPhase Run::phase() const {
  switch (stage_) {
    case Stage::deciding:
    case Stage::building:
      return RunPhase::checking;
    case Stage::running:
      return RunPhase::running;
    case Stage::ending:
      return RunPhase::ending;
    case Stage::undoing:
      return outcome_ == RunPhase::refused ? RunPhase::checking : RunPhase::ending;
    case Stage::ended:
      return outcome_;
    case Stage::erasing:
    case Stage::resting:
      break;
  }
  return RunPhase::none;
}

std::uint64_t Run::completed() const {
  return std::min<std::uint64_t>(site_.board.completed(init_.slot), nodes_);
}

void Run::show() {
  RunSlot slot;
  if (!dropped_) {
    slot.id = static_cast<std::uint64_t>(init_.id);
    slot.phase = phase();
    slot.priority = init_.priority;
    slot.nodes = nodes_;
    slot.edges = edges_;
    const MapPlace memory = has_memory() ? *records_->memory() : MapPlace{};
    slot.first_incarnation = memory.incarnation;
    slot.records_address = memory.address;
    slot.records_bytes = memory.length;
    slot.lost = lost_;
    slot.retried = retried_;
    put_text(name_, slot.name);
    put_text(text_, slot.text);
  }
  site_.board.show(init_.slot, slot);
}

void Run::enter(Stage stage) {
  stage_ = stage;
  show();
}

bool Run::progress(std::uint64_t now_ns) {
  switch (stage_) {
    case Stage::building:
      if (const auto built = build(); !built) refuse(built.error().message);
      return true;
    case Stage::running:
      return look(now_ns);
    case Stage::ending:
      return settle();
    case Stage::undoing:
    case Stage::erasing:
      erase(now_ns);
      return true;
    case Stage::ended:
      correct_count();
      break;
    case Stage::deciding:
    case Stage::resting:
      break;
  }
  return false;
}

std::uint64_t Run::next_deadline_ns(std::uint64_t now_ns) const {
  switch (stage_) {
    case Stage::building:
    case Stage::undoing:
    case Stage::erasing:
      return now_ns;
    case Stage::running:
    case Stage::ending:
    case Stage::resting:
      return now_ns + kLookNs;
    case Stage::deciding:
    case Stage::ended:
      break;
  }
  return UINT64_MAX;
}

// Its records.

void Run::decide(Expected<Graph> graph) {
  if (stage_ != Stage::deciding) return;
  if (!graph) return refuse(graph.error().message);
  nodes_ = graph->size();
  edges_ = graph->edges();
  auto records = RunRecords::create(site_.store, name_, std::move(*graph));
  if (!records) return refuse(records.error().message);
  records_ = std::move(*records);
  enter(Stage::building);
}

Expected<void> Run::build() {
  if (!has_memory()) {
    ROCKHOPPER_TRY(records_->allocate());
    recovery_.emplace(records_->graph(), records_->words(), site_.workers, site_.counters);
  }
  const std::uint64_t end = std::uint64_t{records_->count()} + site_.slice;
  while (records_->count() < std::min<std::uint64_t>(end, nodes_)) {
    ROCKHOPPER_TRY(records_->make_next());
    const NodeIndex node = records_->count() - 1;
    if (records_->graph().predecessors(node).empty()) add_ready(node);
  }
  if (records_->count() < nodes_) return {};
  site_.counters.runs_started.add();
  enter(Stage::running);
  return {};
}

void Run::refuse(std::string_view text) {
  text_ = text;
  outcome_ = RunPhase::refused;
  give_up_building();
}

void Run::give_up_building() {
  ready_ = {};
  if (has_memory()) {
    enter(Stage::undoing);
  } else {
    finish(outcome_);
  }
}

void Run::erase(std::uint64_t now_ns) {
  for (std::uint32_t i = 0; i < site_.slice && records_->count() > 0; ++i) {
    records_->erase_last(now_ns);
  }
  if (records_->count() > 0) return;
  records_->release(now_ns);
  rested_at_ = site_.store.quarantine().added();
  recovery_.reset();
  records_.reset();
  if (stage_ == Stage::undoing) {
    finish(outcome_);
  } else {
    enter(Stage::resting);
  }
}

// Ready nodes.

void Run::add_ready(NodeIndex node) { ready_.emplace(records_->nodes().priority(node), node); }

std::optional<DequeEntry> Run::first_ready() {
  // All of them are put in order before the first one goes.
  if (stage_ != Stage::running || recovery_->is_looking()) return std::nullopt;
  while (!ready_.empty()) {
    const NodeIndex node = ready_.top().second;
    if (records_->words().state(node).phase == NodePhase::pending) {
      const MapPlace place = records_->nodes().place(node);
      return DequeEntry{.address = place.address,
                        .length = place.length,
                        .node = node,
                        .label = records_->nodes().is_directed(node) ? label_of(node) : 0,
                        .run = static_cast<std::uint8_t>(init_.slot)};
    }
    pop_ready();  // somebody has had it already
  }
  return std::nullopt;
}

/// It may be there several times.
void Run::pop_ready() {
  const Urgency first = ready_.top();
  while (!ready_.empty() && ready_.top() == first) {
    ready_.pop();
  }
}

/// An affinity to a worker that is gone leaves it to anybody.
std::uint32_t Run::label_of(NodeIndex node) const {
  std::uint32_t label = 0;
  for (const Predecessor& predecessor : records_->graph().predecessors(node)) {
    const EdgeConstraints& constraints = records_->graph().edge(predecessor.edge).constraints;
    if ((constraints.set & kAffinity) == 0) continue;
    if (constraints.affinity != kSameWorker) {
      label = entry_label(constraints.affinity);
    } else if (const auto owner = records_->words().state(predecessor.from).owner;
               site_.workers.is_here(owner)) {
      return entry_worker(owner);
    }
  }
  return label;
}

// While it runs.

void Run::begin_scan(std::optional<std::uint32_t> lost) {
  // All that are ready will be found again.
  ready_ = {};
  recovery_->begin(lost);
}

void Run::on_worker_gone(std::optional<std::uint32_t> lost) {
  if (stage_ == Stage::running) begin_scan(lost);
}

/// Counts nodes whose worker was lost. True if that has ended the run.
bool Run::has_failed(const std::vector<NodeIndex>& lost) {
  for (const NodeIndex node : lost) {
    const std::uint32_t times = ++losses_[node];
    if (times < init_.attempts.lost) continue;
    end_with(RunPhase::failed, fmt::format("node {}: {} {} lost while running it",
                                           key_text(records_->graph().key(node)), times,
                                           times == 1 ? "worker was" : "workers were"));
    return true;
  }
  return false;
}

/// A state that a node may have which is not at its end.
bool Run::is_plausible(NodeIndex node, const NodeState& state) const {
  switch (state.phase) {
    case NodePhase::pending:
      return state.owner == 0;
    case NodePhase::running:
      return site_.workers.is_here(state.owner);
    case NodePhase::done:
      return site_.workers.is_here(state.owner) || recovery_->is_orphan(node);
    case NodePhase::released:
    case NodePhase::canceled:
      break;
  }
  return false;
}

/// What is released stays so: a mark that only goes on tells when all are.
bool Run::look(std::uint64_t now_ns) {
  RunRecovery::Found found;
  bool worked = recovery_->progress(now_ns, site_.slice, found);
  for (const NodeIndex node : found.ready) {
    add_ready(node);
  }
  if (found.released > 0) {
    site_.board.set_completed(init_.slot, site_.board.completed(init_.slot) + found.released);
  }
  if (found.put_back > 0) {
    lost_ += found.put_back;
    show();
    if (has_failed(found.lost)) return true;
  }
  const std::uint64_t end = std::min<std::uint64_t>(std::uint64_t{passed_} + site_.slice, nodes_);
  while (passed_ < end) {
    const NodeState state = records_->words().state(passed_);
    if (state.phase != NodePhase::released) {
      if (!recovery_->is_looking() && !is_plausible(passed_, state)) begin_scan(std::nullopt);
      break;
    }
    ++passed_;
    worked = true;
  }
  if (passed_ == nodes_) finish(RunPhase::complete);
  return worked;
}

Status Run::on_node_failed(std::uint32_t worker, NodeIndex node, std::uint32_t attempt,
                           std::string_view text) {
  if ((stage_ != Stage::running && stage_ != Stage::ending) || node >= nodes_) {
    return Status::invalid;
  }
  const NodeState state = records_->words().state(node);
  if (state != NodeState{.phase = NodePhase::running, .attempt = attempt, .owner = worker} ||
      !site_.workers.is_here(worker)) {
    return Status::invalid;
  }
  if (stage_ == Stage::ending) {
    records_->words().set_state(node, {.phase = NodePhase::canceled, .attempt = attempt});
    site_.counters.nodes_canceled.add();
    return Status::ok;
  }
  records_->words().set_state(node, next_attempt(state));
  if (++failures_[node] >= init_.attempts.failed) {
    end_with(RunPhase::failed,
             fmt::format("node {}: {}", key_text(records_->graph().key(node)), text));
    return Status::ok;
  }
  ++retried_;
  site_.counters.nodes_retried.add();
  add_ready(node);
  show();
  return Status::ok;
}

// How it ends.

void Run::cancel() {
  switch (stage_) {
    case Stage::deciding:
      finish(RunPhase::canceled);
      break;
    case Stage::building:
      text_ = "canceled before it began";
      outcome_ = RunPhase::canceled;
      give_up_building();
      break;
    case Stage::running:
      end_with(RunPhase::canceled, "");
      break;
    default:
      break;
  }
}

void Run::end_with(RunPhase outcome, std::string_view text) {
  outcome_ = outcome;
  text_ = text;
  ready_ = {};
  enter(Stage::ending);
}

/// First no node may be pending any more, so that nobody can begin one; then the workers have to
/// give up what they have, or be lost.
bool Run::settle() {
  bool worked = false;
  for (std::uint32_t i = 0; i < site_.slice && swept_ < nodes_; ++i) {
    (void)settle(swept_++);
    worked = true;
  }
  if (swept_ < nodes_) return worked;
  for (std::uint32_t i = 0; i < site_.slice && passed_ < nodes_ && settle(passed_); ++i) {
    ++passed_;
    worked = true;
  }
  if (passed_ == nodes_) finish(outcome_);
  return worked;
}

/// Returns true if no worker has the node, and none will.
bool Run::settle(NodeIndex node) {
  const NodeState state = records_->words().state(node);
  if (state.phase == NodePhase::released || state.phase == NodePhase::canceled) return true;
  const bool taken = state.phase == NodePhase::running || state.phase == NodePhase::done;
  if (taken && site_.workers.is_here(state.owner)) return false;
  records_->words().set_state(node, {.phase = NodePhase::canceled, .attempt = state.attempt});
  site_.counters.nodes_canceled.add();
  return true;
}

/// Workers count what they have released later, or never if they are lost.
void Run::correct_count() {
  if (outcome_ == RunPhase::complete && site_.board.completed(init_.slot) != nodes_) {
    site_.board.set_completed(init_.slot, nodes_);
  }
}

void Run::finish(RunPhase outcome) {
  outcome_ = outcome;
  switch (outcome) {
    case RunPhase::complete:
      correct_count();
      site_.counters.runs_complete.add();
      break;
    case RunPhase::failed:
      site_.counters.runs_failed.add();
      break;
    case RunPhase::canceled:
      site_.counters.runs_canceled.add();
      break;
    default:
      site_.counters.runs_refused.add();
      break;
  }
  ready_ = {};
  enter(Stage::ended);
}

bool Run::drop(std::uint64_t now_ns) {
  if (stage_ != Stage::ended) return false;
  dropped_ = true;
  enter(has_memory() ? Stage::erasing : Stage::resting);
  // Its outputs at this server.
  (void)site_.store.release_group(RunGroup(name_, init_.id).bytes(), now_ns);
  rested_at_ = site_.store.quarantine().added();
  site_.counters.runs_dropped.add();
  return true;
}

bool Run::is_gone() const {
  return stage_ == Stage::resting && site_.store.quarantine().released() >= rested_at_;
}

}  // namespace rockhopper::dag
