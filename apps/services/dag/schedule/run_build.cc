// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// How a run's records come into the store, and out of it again.
#include <algorithm>
#include <cassert>

#include <fmt/format.h>

#include "apps/services/dag/record.h"
#include "apps/services/dag/schedule/run.h"

namespace rockhopper::dag {
namespace {}  // namespace

void Run::decide(Expected<Graph> graph) {
  if (stage_ != Stage::deciding) return;
  if (!graph) {
    refuse(graph.error().message);
    return;
  }
  graph_ = std::move(*graph);
  nodes_ = graph_->size();
  edges_ = graph_->edges();
  if (nodes_ == 0) {
    refuse("the graph has no nodes");
    return;
  }
  auto records = NodeRecords::create(*graph_, name_, site_.store.config().capacity_max);
  if (!records) {
    refuse(records.error().message);
    return;
  }
  records_ = std::move(*records);
  enter(Stage::building);
}

/// Memory for all records. Nothing has been changed if there is none.
bool Run::prepare() {
  const Store& store = site_.store;
  if (store.config().records - store.size() < nodes_) {
    refuse(fmt::format("the graph has {} nodes, and there is room for {} records", nodes_,
                       store.config().records - store.size()));
    return false;
  }
  const auto arena = site_.store.allocate_arena(Store::kHomeOwner, records_->bytes());
  if (arena.status != Status::ok) {
    refuse(fmt::format("there is no room for {} bytes of records", records_->bytes()));
    return false;
  }
  arena_ = arena.place;
  records_->set_place(arena_->address, arena_->incarnation);
  words_.emplace(site_.store.memory(), *records_);
  recovery_.emplace(*graph_, *words_, site_.workers, site_.counters);
  return true;
}

void Run::build() {
  if (!arena_ && !prepare()) return;
  const std::uint64_t end = std::min<std::uint64_t>(std::uint64_t{built_} + site_.slice, nodes_);
  for (; built_ < end; ++built_) {
    const MapPlace place = records_->place(built_);
    records_->compose(built_, site_.store.memory().subspan(place.address, place.length));
    const std::string key = records_->key(built_);
    const auto adopted = site_.store.adopt(Store::kHomeOwner, bytes_of(key), place);
    if (adopted.status != Status::ok) {
      refuse(fmt::format("the record of node {} cannot be made: {}", key_text(graph_->key(built_)),
                         to_string(adopted.status)));
      return;
    }
    if (graph_->predecessors(built_).empty()) add_ready(built_);
  }
  if (built_ < nodes_) return;
  site_.counters.runs_started.add();
  enter(Stage::running);
}

void Run::refuse(std::string_view text) {
  text_ = text;
  outcome_ = RunPhase::refused;
  give_up_building();
}

void Run::give_up_building() {
  ready_ = {};
  if (arena_) {
    enter(Stage::undoing);
  } else {
    finish(outcome_);
  }
}

void Run::erase(std::uint64_t now_ns) {
  for (std::uint32_t i = 0; i < site_.slice && built_ > 0; ++i) erase_record(--built_, now_ns);
  if (built_ > 0) return;
  static_cast<void>(site_.store.release_arena(Store::kHomeOwner, arena_->address, now_ns));
  rested_at_ = site_.store.quarantine().added();
  arena_.reset();
  recovery_.reset();
  words_.reset();
  records_.reset();
  graph_.reset();
  if (stage_ == Stage::undoing) {
    finish(outcome_);
  } else {
    enter(Stage::resting);
  }
}

void Run::erase_record(NodeIndex node, std::uint64_t now_ns) {
  const std::string key = records_->key(node);
  if (site_.store.erase(bytes_of(key), now_ns).status == Status::ok) return;
  // Somebody has written over it. As the run had it, it can be found.
  const MapPlace place = records_->place(node);
  records_->compose(node, site_.store.memory().subspan(place.address, place.length));
  static_cast<void>(site_.store.erase(bytes_of(key), now_ns));
}

}  // namespace rockhopper::dag
