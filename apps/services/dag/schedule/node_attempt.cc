// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/node_attempt.h"

#include <cassert>
#include <tuple>
#include <utility>

#include "apps/services/dag/schedule/claiming.h"
#include "apps/services/dag/schedule/committing.h"
#include "apps/services/dag/schedule/home_request.h"
#include "apps/services/dag/schedule/reading.h"
#include "apps/services/dag/schedule/storing.h"

namespace rockhopper::dag {

NodeAttempt::NodeAttempt(Workplace& at, AttemptKeeper& keeper, std::uint32_t index)
    : at_(at),
      keeper_(keeper),
      index_(index),
      record_(at.init.engine, at.pd),
      words_(at.init.engine, at.pd),
      other_(at.init.engine, at.pd) {}

Expected<void> NodeAttempt::set_up() {
  constexpr std::size_t kRecordBytes = 1024;
  ROCKHOPPER_TRY(words_.reserve(SuccessorReleases::kBatch * sizeof(std::uint64_t)));
  return record_.reserve(kRecordBytes);
}

bool NodeAttempt::is_wanted() const { return at_.runs.is_going_on(origin_.entry.run, origin_.run); }

void NodeAttempt::begin(const Origin& origin, Window::Place place) {
  assert(stage_ == Stage::free && !has_job_);
  at_.window.move(place_, place);
  origin_ = origin;
  claim_.attempt = 0;
  claim_.tries = 0;
  claim_.is_decided = false;
  claim_.began_ns = at_.now_ns;
  outcome_.failure.clear();
  outcome_.arena_request = 0;
  outcome_.end_ns = 0;
  outcome_.is_committed = false;
  enter(origin.entry.label == 0 ? Stage::claiming : Stage::looking);
}

// The way from stage to stage.

void NodeAttempt::enter(Stage stage) {
  assert(outstanding_ == 0);
  stage_ = stage;
  posted_ = 0;
  step();
}

/// Posts what the stage has to post; when that is done and complete, goes on.
void NodeAttempt::step() {
  if (at_.membership.has_stopped()) return;
  const Stage stage = stage_;
  const std::uint32_t generation = generation_;
  const bool all = post();
  if (stage_ != stage || generation_ != generation) return;
  if (!all) {
    keeper_.on_blocked(*this);
  } else if (outstanding_ == 0) {
    done();
  }
}

/// Returns false if there is no room for all of it now.
bool NodeAttempt::post() {
  switch (stage_) {
    case Stage::looking:
      return Claiming(*this).post_look();
    case Stage::tracing:
      return Claiming(*this).post_trace();
    case Stage::claiming:
      return Claiming(*this).post_claim();
    case Stage::placing:
      return Reading(*this).post_places();
    case Stage::reading:
      return Reading(*this).post_inputs();
    case Stage::storing:
      return Storing(*this).post();
    case Stage::committing:
      return Committing(*this).post_commit();
    case Stage::successors:
      return Committing(*this).post_successors();
    case Stage::directing:
      return Committing(*this).post_directed();
    case Stage::releasing:
      return Committing(*this).post_release();
    case Stage::returning:
      return post_return();
    case Stage::failing:
      return post_failure();
    case Stage::free:
    case Stage::prepared:
    case Stage::running:
    case Stage::waiting:
    case Stage::abandoned:
      return true;
  }
  return true;
}

void NodeAttempt::done() {
  switch (stage_) {
    case Stage::looking:
      return Claiming(*this).on_looked();
    case Stage::tracing:
      return Claiming(*this).on_traced();
    case Stage::claiming:
      return Claiming(*this).on_claimed();
    case Stage::placing:
      return enter(Stage::reading);
    case Stage::reading:
      return Reading(*this).on_inputs();
    case Stage::committing:
    case Stage::successors:
      return Committing(*this).on_successors();
    case Stage::directing:
      return Committing(*this).on_directed();
    case Stage::releasing:
      return Committing(*this).on_released();
    case Stage::returning:
      return on_returned();
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

void NodeAttempt::on_completion() {
  assert(outstanding_ > 0);
  if (--outstanding_ == 0) step();
}

bool NodeAttempt::on_result(AskKind kind, std::uint32_t number, const Result& result) {
  if (outstanding_ == 0) return false;
  --outstanding_;
  if (at_.membership.has_stopped()) return true;
  switch (kind) {
    case AskKind::input:
      Reading(*this).on_result(number, result);
      if (outstanding_ == 0) step();
      break;
    case AskKind::output:
      Storing(*this).on_result(result);
      break;
    default:
      // A failure that was not told, and never will be: once more. Whatever else the home says, it
      // has decided.
      if (result.status == Status::timed_out) {
        enter(Stage::failing);
      } else {
        report(false);
        free();
      }
      break;
  }
  return true;
}

bool NodeAttempt::retry() {
  if (stage_ == Stage::free) return false;
  const auto state = [this] { return std::tuple(stage_, generation_, posted_, outstanding_); };
  const auto before = state();
  step();
  return state() != before;
}

// The executor.

void NodeAttempt::start() {
  assert(stage_ == Stage::prepared && !has_job_);
  leave_way();
  has_job_ = true;
  stage_ = Stage::running;
  at_.init.executor.start({.ticket = ticket(),
                           .key = copy_.key(),
                           .tasks = copy_.node().tasks,
                           .inputs = inputs_.for_tasks()});
}

void NodeAttempt::complete(Expected<std::span<const std::byte>> output, std::uint64_t start_ns,
                           std::uint64_t end_ns) {
  assert(has_job_);
  has_job_ = false;
  outcome_.start_ns = start_ns;
  outcome_.end_ns = end_ns;
  outcome_.finished_ns = 0;  // known in the next turn
  if (stage_ == Stage::abandoned) {
    if (!at_.membership.is_lost()) free();
    return;
  }
  // A canceled one is on its way back.
  if (stage_ != Stage::running) return;
  if (output) {
    outcome_.output.assign(output->begin(), output->end());
  } else {
    outcome_.failure = output.error().message.empty() ? "failed" : output.error().message;
  }
  stage_ = Stage::storing;
  posted_ = 0;
  keeper_.on_blocked(*this);
}

void NodeAttempt::on_runs_changed() {
  if (is_wanted()) return;
  if (stage_ == Stage::running) {
    abandon();
    give_up();
  } else if (stage_ == Stage::prepared) {
    give_up();
  }
}

void NodeAttempt::wake() {
  assert(stage_ == Stage::waiting);
  releases_.on_time(at_.now_ns - outcome_.finished_ns);
  enter(Stage::successors);
}

// What the stretches of the way have in common.

void NodeAttempt::read(std::uint64_t address, const LocalMemory& to, std::size_t offset,
                       std::uint32_t length) {
  at_.home.read(wr_id(), at_.init.grant.records_key, address, to, to.data() + offset, length, true);
  ++outstanding_;
}

/// Writes control words of the node, from word `first` on.
void NodeAttempt::write_words(unsigned first, std::span<const std::uint64_t> words, bool signaled) {
  at_.home.write(wr_id(), at_.init.grant.records_key, address_of(first), std::as_bytes(words),
                 signaled);
  if (signaled) ++outstanding_;
}

// How it ends.

/// It is known now whose the node is.
void NodeAttempt::decide(Fate fate) {
  if (std::exchange(claim_.is_decided, true)) return;
  if (origin_.theft) {
    if (at_.thief.decide(*origin_.theft, origin_.number, fate)) at_.search.on_found(at_.now_ns);
  } else if (fate == Fate::left) {
    at_.ready.set_aside({origin_.priority, origin_.entry});
  }
}

/// It is not on its way to the executor any more.
void NodeAttempt::leave_way() {
  if (place_ == Window::Place::ahead) at_.window.move(place_, Window::Place::inside);
}

void NodeAttempt::free() {
  assert(outstanding_ == 0 && !has_job_);
  constexpr std::size_t kKept = 1 << 20;
  at_.window.move(place_, Window::Place::none);
  stage_ = Stage::free;
  ++generation_;
  if (outcome_.output.capacity() > kKept) outcome_.output = {};
  inputs_.trim(kKept);
  at_.moved = true;
  keeper_.on_free(*this);
}

/// It is not this worker's.
void NodeAttempt::put_aside(Fate fate) {
  decide(fate);
  free();
}

void NodeAttempt::give_back() { return_as(NodePhase::pending); }

/// Its run does not want it any more.
void NodeAttempt::give_up() {
  at_.counters.given_up.add();
  return_as(NodePhase::canceled);
}

void NodeAttempt::return_as(NodePhase phase) {
  leave_way();
  returned_ = phase;
  enter(Stage::returning);
}

bool NodeAttempt::post_return() {
  if (posted_ > 0) return true;
  if (at_.home.room() < 2) return false;
  const bool pending = returned_ == NodePhase::pending;
  // The run is there as long as a node of it is running.
  const std::uint64_t bits = NodeState{.phase = returned_, .attempt = claim_.attempt}.bits();
  write_words(kStateWord, {&bits, 1}, !pending);
  if (pending) read(address_of(kDependenciesWord), words_, 0, sizeof(std::uint64_t));
  posted_ = 1;
  return true;
}

void NodeAttempt::on_returned() {
  if (returned_ == NodePhase::pending) {
    if (found()[0] == 0) at_.ready.push({origin_.priority, origin_.entry});
  } else {
    report(false);
  }
  if (has_job_) {
    stage_ = Stage::abandoned;
  } else {
    free();
  }
}

/// It cannot be run; the home decides what becomes of it.
void NodeAttempt::fail(std::string text) {
  at_.counters.failed.add();
  if (text.size() > kCreateDataMax) text.resize(kCreateDataMax);
  outcome_.failure = std::move(text);
  leave_way();
  enter(Stage::failing);
}

bool NodeAttempt::post_failure() {
  if (posted_ > 0) return true;
  if (!is_wanted()) {
    give_up();
    return true;
  }
  const Started started =
      at_.init.client.ask(at_.init.home, static_cast<std::uint8_t>(HomeRequest::node_failed),
                          bytes_of(at_.runs.at(origin_.entry.run).name), bytes_of(outcome_.failure),
                          std::uint64_t{origin_.entry.node} << 32 | claim_.attempt,
                          at_.context(AskKind::failure, index_));
  if (started == Started::no_room) return false;
  if (started != Started::yes) {
    at_.membership.lose(Status::unreachable);
    return true;
  }
  posted_ = 1;
  ++outstanding_;
  return true;
}

/// Tells what has come of a node that was run.
void NodeAttempt::report(bool committed) {
  if (outcome_.end_ns == 0) return;
  at_.init.listener.on_node({.run = copy_.run_name(),
                             .key = copy_.key(),
                             .start_ns = outcome_.start_ns,
                             .end_ns = outcome_.end_ns,
                             .stolen = origin_.theft.has_value(),
                             .attempts = claim_.attempt + 1,
                             .committed = committed});
}

}  // namespace rockhopper::dag
