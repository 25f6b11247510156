// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/run_records.h"

#include <cassert>
#include <string>

#include "apps/services/dag/graph/task.h"
#include "apps/services/dag/record.h"

namespace rockhopper::dag {

Expected<std::unique_ptr<RunRecords>> RunRecords::create(Store& store, std::string_view run,
                                                         Graph graph) {
  std::unique_ptr<RunRecords> records(new RunRecords(store, std::move(graph)));
  ROCKHOPPER_TRY(records->nodes_,
                 NodeRecords::create(records->graph_, run, store.config().capacity_max));
  records->words_.emplace(store.memory(), *records->nodes_);
  return records;
}

Expected<void> RunRecords::allocate() {
  const std::uint32_t room = store_.config().records - store_.size();
  if (room < graph_.size()) {
    return fail(ErrorCode::exhausted, "the graph has {} nodes, and there is room for {} records",
                graph_.size(), room);
  }
  const auto arena = store_.allocate_arena(Store::kHomeOwner, nodes_->bytes());
  if (arena.status != Status::ok) {
    return fail(ErrorCode::exhausted, "there is no room for {} bytes of records", nodes_->bytes());
  }
  memory_ = arena.place;
  nodes_->set_place(memory_->address, memory_->incarnation);
  return {};
}

void RunRecords::compose(NodeIndex node) {
  const MapPlace place = nodes_->place(node);
  nodes_->compose(node, store_.memory().subspan(place.address, place.length));
}

Expected<void> RunRecords::make_next() {
  assert(memory_ && count_ < graph_.size());
  compose(count_);
  const std::string key = nodes_->key(count_);
  const auto adopted = store_.adopt(Store::kHomeOwner, bytes_of(key), nodes_->place(count_));
  if (adopted.status != Status::ok) {
    return fail(ErrorCode::exhausted, "the record of node {} cannot be made: {}",
                key_text(graph_.key(count_)), to_string(adopted.status));
  }
  ++count_;
  return {};
}

void RunRecords::erase_last(std::uint64_t now_ns) {
  assert(count_ > 0);
  const std::string key = nodes_->key(--count_);
  if (store_.erase(bytes_of(key), now_ns).status == Status::ok) return;
  // Somebody has written over it. As the run had it, it can be found.
  compose(count_);
  (void)store_.erase(bytes_of(key), now_ns);
}

void RunRecords::release(std::uint64_t now_ns) {
  assert(memory_ && count_ == 0);
  (void)store_.release_arena(Store::kHomeOwner, memory_->address, now_ns);
  memory_.reset();
}

}  // namespace rockhopper::dag
