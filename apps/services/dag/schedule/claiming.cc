// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/claiming.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "apps/services/dag/schedule/reading.h"

namespace rockhopper::dag {
namespace {

/// Attempts of a node that begin while it is being claimed.
constexpr unsigned kClaimTries = 4;

}  // namespace

/// READs the record, behind the CAS if it is claimed: what is READ then cannot change any more.
bool NodeAttempt::Claiming::post_record(bool claim) {
  if (attempt_.posted_ > 0) return true;
  if (at_.home.room() < 2) return false;
  const DequeEntry& entry = attempt_.origin_.entry;
  if (!attempt_.record_.reserve(entry.length)) {
    attempt_.put_aside(Fate::left);
    return true;
  }
  if (claim) {
    at_.counters.claims.add();
    const NodeState pending{.phase = NodePhase::pending, .attempt = attempt_.claim_.attempt};
    at_.home.compare_swap(attempt_.wr_id(), at_.init.grant.records_key,
                          attempt_.address_of(kStateWord), pending.bits(),
                          attempt_.state_bits(NodePhase::running), attempt_.words_,
                          attempt_.words_.data(), false);
  }
  attempt_.read(entry.address, attempt_.record_, 0, entry.length);
  attempt_.posted_ = 1;
  return true;
}

// Affinity: before a node is claimed, its record tells whether this worker may run it.

void NodeAttempt::Claiming::on_looked() {
  at_.counters.looked_at.add();
  if (!attempt_.is_wanted()) return attempt_.put_aside(Fate::gone);
  // If it is no node any more, the claim will find that out too.
  if (!attempt_.copy_.parse(record(), attempt_.origin_.entry, at_.runs)) {
    return attempt_.enter(Stage::claiming);
  }
  if (!find_traced()) {
    at_.counters.unfit.add();
    return attempt_.put_aside(Fate::left);
  }
  const std::size_t count = attempt_.claim_.traced.size();
  if (count == 0) return attempt_.enter(Stage::claiming);
  if (!attempt_.words_.reserve(count * sizeof(std::uint64_t))) {
    return attempt_.put_aside(Fate::left);
  }
  attempt_.enter(Stage::tracing);
}

/// Finds the predecessors whose workers matter. Returns false if the node needs a label that this
/// worker does not have.
bool NodeAttempt::Claiming::find_traced() {
  const std::vector<NodeLink>& predecessors = attempt_.copy_.node().predecessors;
  attempt_.claim_.traced.clear();
  for (std::uint32_t i = 0; i < predecessors.size(); ++i) {
    const EdgeConstraints& constraints = predecessors[i].constraints;
    if ((constraints.set & kAffinity) == 0) continue;
    if (constraints.affinity == kSameWorker) {
      attempt_.claim_.traced.push_back(i);
    } else if (!at_.affinity.has(constraints.affinity)) {
      return false;
    }
  }
  return true;
}

bool NodeAttempt::Claiming::post_trace() {
  const std::vector<std::uint32_t>& traced = attempt_.claim_.traced;
  for (std::size_t& i = attempt_.posted_; i < traced.size(); ++i) {
    if (at_.home.room() <= Workplace::kLinkReserve) return false;
    const NodeLink& link = attempt_.copy_.node().predecessors[traced[i]];
    attempt_.read(word_address(link.address, kStateWord), attempt_.words_,
                  i * sizeof(std::uint64_t), sizeof(std::uint64_t));
  }
  return true;
}

/// Anybody may run the node if the worker that it would have to be is not there any more.
void NodeAttempt::Claiming::on_traced() {
  for (const std::uint64_t bits : attempt_.found().first(attempt_.claim_.traced.size())) {
    const NodeState state = NodeState::from(bits);
    if (state.owner != at_.me() && at_.board.has_worker(state.owner)) {
      at_.counters.unfit.add();
      return attempt_.put_aside(Fate::left);
    }
  }
  attempt_.enter(Stage::claiming);
}

// The claim.

void NodeAttempt::Claiming::on_claimed() {
  const NodeState found = NodeState::from(attempt_.found()[0]);
  const NodeState expected{.phase = NodePhase::pending, .attempt = attempt_.claim_.attempt};
  if (found != expected) {
    on_lost(found);
  } else {
    on_won();
  }
}

void NodeAttempt::Claiming::on_lost(const NodeState& found) {
  Claim& claim = attempt_.claim_;
  const bool is_pending = found.phase == NodePhase::pending;
  if (is_pending && found.owner == 0 && ++claim.tries < kClaimTries) {
    at_.counters.claims_repeated.add();
    claim.attempt = found.attempt;
    return attempt_.enter(Stage::claiming);
  }
  at_.counters.claims_gone.add();
  attempt_.put_aside(is_pending ? Fate::left : Fate::gone);
}

void NodeAttempt::Claiming::on_won() {
  const DequeEntry& entry = attempt_.origin_.entry;
  at_.counters.claims_won.add();
  attempt_.decide(Fate::won);
  if (!attempt_.is_wanted()) return attempt_.give_up();
  const RecordView head =
      examine_head(record(), at_.runs.at(entry.run).first_incarnation + entry.node, std::nullopt);
  if (head.verdict != Verdict::match) {
    // The run has been dropped, and its memory rests.
    at_.counters.claims_stale.add();
    return attempt_.free();
  }
  if (!attempt_.copy_.parse(record(), entry, at_.runs)) {
    return attempt_.fail("its record is damaged");
  }
  if (head.header.control[kDependenciesWord] != 0) {
    at_.counters.claims_early.add();
    return attempt_.give_back();
  }
  if (attempt_.place_ != Window::Place::ahead) {
    if (at_.window.ahead() >= at_.wanted_ahead()) {
      at_.counters.transferred.add();
      return attempt_.give_back();
    }
    at_.window.move(attempt_.place_, Window::Place::ahead);
  }
  Reading(attempt_).begin();
}

}  // namespace rockhopper::dag
