// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/committing.h"

#include <optional>
#include <utility>

namespace rockhopper::dag {

void NodeAttempt::Committing::begin() {
  releases_.begin(attempt_.copy_.node().successors);
  attempt_.enter(Stage::committing);
}

bool NodeAttempt::Committing::post_commit() {
  if (attempt_.posted_ > 0) return true;
  if (at_.home.room() < 2 * SuccessorReleases::kBatch) return false;
  at_.counters.chains.add();
  const bool has_successors = !attempt_.copy_.node().successors.empty();
  const OutputPlace& place = attempt_.outcome_.place;
  const ControlWords words{
      attempt_.state_bits(has_successors ? NodePhase::done : NodePhase::released), 0, place.first(),
      place.second()};
  const bool is_all = releases_.next().empty();
  attempt_.write_words(kStateWord, words, is_all);
  attempt_.posted_ = 1;
  if (is_all) return true;
  attempt_.stage_ = Stage::successors;
  return post_successors();
}

/// As many as there is room for the results.
bool NodeAttempt::Committing::post_successors() {
  const auto due = releases_.next();
  if (at_.home.room() < due.size()) return false;
  for (std::size_t i = 0; i < due.size(); ++i) {
    at_.home.fetch_add(attempt_.wr_id(), at_.init.grant.records_key,
                       word_address(releases_.link(due[i]).address, kDependenciesWord),
                       ~std::uint64_t{0}, attempt_.words_,
                       attempt_.words_.data() + i * sizeof(std::uint64_t), i + 1 == due.size());
  }
  if (due.empty()) return true;
  at_.counters.successors.add(due.size());
  releases_.on_posted();
  ++attempt_.outstanding_;
  return true;
}

void NodeAttempt::Committing::on_successors() {
  if (!std::exchange(attempt_.outcome_.is_committed, true)) note_committed();
  releases_.on_found(attempt_.found(), [this](const NodeLink& link) { make_ready(link, 0); });
  if (!releases_.next().empty()) return attempt_.enter(Stage::successors);
  go_on();
}

void NodeAttempt::Committing::note_committed() {
  at_.cache.insert(attempt_.origin_.run, attempt_.origin_.entry.node, attempt_.outcome_.output);
  at_.counters.nodes.add();
  if (attempt_.origin_.theft) at_.counters.nodes_stolen.add();
  attempt_.report(true);
}

void NodeAttempt::Committing::go_on() {
  if (releases_.directed() != nullptr) return attempt_.enter(Stage::directing);
  if (const auto delay_ns = releases_.next_delay_ns()) return wait(*delay_ns);
  if (attempt_.copy_.node().successors.empty()) return on_released();
  attempt_.enter(Stage::releasing);
}

void NodeAttempt::Committing::make_ready(const NodeLink& link, std::uint32_t label) {
  at_.counters.pushed.add();
  at_.ready.push({.priority = attempt_.origin_.priority,
                  .entry = {.address = link.address,
                            .length = static_cast<std::uint32_t>(whole_lines(link.length)),
                            .node = link.node,
                            .label = label,
                            .run = attempt_.origin_.entry.run}});
}

// Successors with an affinity: their records tell for whom they are.

bool NodeAttempt::Committing::post_directed() {
  if (attempt_.posted_ > 0) return true;
  const NodeLink& link = *releases_.directed();
  if (at_.home.room() < 1 || !attempt_.other_.reserve(whole_lines(link.length))) return false;
  attempt_.read(link.address, attempt_.other_, 0, link.length);
  attempt_.posted_ = 1;
  return true;
}

void NodeAttempt::Committing::on_directed() {
  const NodeLink& link = *releases_.directed();
  releases_.drop_directed();
  const RecordView record =
      examine_record(attempt_.other_.bytes().first(link.length), link.incarnation, std::nullopt);
  const bool good = record.verdict == Verdict::match && parse_node(record.data, at_.scratch);
  make_ready(link, good ? at_.affinity.entry_label_of(at_.scratch, attempt_.origin_.entry.node)
                        : kWorkerLabel);
  go_on();
}

/// Edges that want time to pass after the node's end.
void NodeAttempt::Committing::wait(std::uint64_t delay_ns) {
  if (at_.window.has_room_to_wait()) at_.window.move(attempt_.place_, Window::Place::waiting);
  attempt_.stage_ = Stage::waiting;
  attempt_.keeper_.on_waiting(attempt_, attempt_.outcome_.finished_ns + delay_ns);
}

// The end.

bool NodeAttempt::Committing::post_release() {
  if (at_.home.room() < 1) return false;
  const std::uint64_t bits = attempt_.state_bits(NodePhase::released);
  attempt_.write_words(kStateWord, {&bits, 1}, false);
  return true;
}

void NodeAttempt::Committing::on_released() {
  at_.runs.on_released(attempt_.origin_.entry.run);
  attempt_.free();
}

}  // namespace rockhopper::dag
