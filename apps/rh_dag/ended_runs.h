// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>

#include "apps/services/dag/schedule/worker.h"

namespace rockhopper::apps::dag_node {

/// The runs that have ended while a worker looked on. One that was running and is not on the board
/// any more has ended too: it was dropped before the worker looked again.
class EndedRuns {
 public:
  /// All that the board shows.
  void see(std::span<const dag::Worker::RunView> runs);
  [[nodiscard]] std::size_t count() const { return ended_.size(); }
  /// Some are not done.
  [[nodiscard]] bool awaits_more() const { return awaits_more_; }

 private:
  std::set<std::uint64_t> running_;
  std::set<std::uint64_t> ended_;
  bool awaits_more_ = false;
};

}  // namespace rockhopper::apps::dag_node
