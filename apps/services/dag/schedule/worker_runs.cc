// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/worker_runs.h"

#include <algorithm>
#include <utility>

namespace rockhopper::dag {

const BoardView::Run* WorkerRuns::find(const DequeEntry& entry) const {
  if (entry.run >= runs_.size()) return nullptr;
  const BoardView::Run& run = at(entry.run);
  const std::uint64_t end = entry.address + entry.length;
  if (run.phase != RunPhase::running || entry.node >= run.nodes ||
      entry.length < sizeof(RecordHeader) || end > records_bytes_) {
    return nullptr;
  }
  // An entry that leads elsewhere is of an earlier run that had this slot.
  if (run.records_bytes > 0 && (entry.address < run.records_address ||
                                end > run.records_address + whole_lines(run.records_bytes))) {
    return nullptr;
  }
  return &run;
}

bool WorkerRuns::has_ended(const DequeEntry& entry) const {
  if (entry.run >= runs_.size()) return true;
  const RunPhase phase = at(entry.run).phase;
  return phase != RunPhase::none && phase != RunPhase::checking;
}

bool WorkerRuns::is_going_on(std::uint8_t slot, std::uint64_t id) const {
  return at(slot).id == id && at(slot).phase == RunPhase::running;
}

bool WorkerRuns::may_lead_to(std::uint8_t slot, const NodeLink& link) const {
  return link.address % kRecordAlignment == 0 &&
         link.length < kRecordLengthEnd - kRecordAlignment &&
         find({.address = link.address,
               .length = static_cast<std::uint32_t>(whole_lines(link.length)),
               .node = link.node,
               .run = slot}) != nullptr;
}

std::vector<WorkerRuns::Change> WorkerRuns::follow(const std::vector<BoardView::Run>& seen) {
  std::vector<Change> changes;
  runs_.resize(seen.size());
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    Run& run = runs_[i];
    const BoardView::Run before = std::exchange(run.seen, seen[i]);
    const bool is_another = before.id != run.seen.id;
    const bool has_ended =
        is_another ? before.id != 0
                   : before.phase == RunPhase::running && run.seen.phase != RunPhase::running;
    if (!is_another && !has_ended) continue;
    if (is_another) run.released = 0;
    changes.push_back(
        {.slot = static_cast<std::uint8_t>(i), .is_another = is_another, .has_ended = has_ended});
  }
  return changes;
}

std::uint64_t WorkerRuns::take_released(std::uint8_t slot) {
  Run& run = runs_[slot];
  if (run.released == 0 || run.is_adding) return 0;
  run.is_adding = true;
  return std::exchange(run.released, 0);
}

bool WorkerRuns::has_released() const {
  return std::any_of(runs_.begin(), runs_.end(), [](const Run& run) { return run.released > 0; });
}

}  // namespace rockhopper::dag
