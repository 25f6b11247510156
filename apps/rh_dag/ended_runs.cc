// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/ended_runs.h"

#include "apps/rh_dag/board_reader.h"

namespace rockhopper::apps::dag_node {

void EndedRuns::see(std::span<const dag::Worker::RunView> runs) {
  std::set<std::uint64_t> running;
  awaits_more_ = false;
  for (const auto& run : runs) {
    if (run.phase == dag::RunPhase::none) continue;
    if (!has_ended(run.phase)) {
      awaits_more_ = true;
      if (run.phase != dag::RunPhase::checking) running.insert(run.id);
    } else if (run.phase != dag::RunPhase::refused) {
      ended_.insert(run.id);
    }
  }
  for (const std::uint64_t id : running_) {
    if (running.count(id) == 0) ended_.insert(id);
  }
  running_.swap(running);
}

}  // namespace rockhopper::apps::dag_node
