// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>

#include "apps/services/dag/grant.h"
#include "apps/services/dag/schedule/board.h"
#include "apps/services/dag/schedule/home_link.h"
#include "apps/services/dag/schedule/local_memory.h"
#include "apps/services/dag/schedule/ready_nodes.h"
#include "apps/services/dag/schedule/worker_counters.h"

namespace rockhopper::dag {

/// Takes entries from the pool of the home, first, and only then claims their nodes: a worker that
/// has been fenced cannot, and what a lost one had taken is put back by the home. Once at a time.
class PoolTaker {
 public:
  static constexpr std::size_t kEntriesMax = 64;

  /// Up to `most` entries at a time, and kEntriesMax. Its requests have `wr_id`. `memory` is for it
  /// alone. All must outlive it.
  PoolTaker(HomeLink& home, const Grant& grant, std::uint64_t wr_id, std::uint64_t most,
            LocalMemory& memory, WorkerCounters& counters);
  /// Before all else.
  [[nodiscard]] Expected<void> set_up();

  /// Takes some of what the pool has, as its ends were READ; nothing if there is nothing, or no
  /// room, or some are being taken.
  void take(const DequeHead& ends, const BoardLayout& layout);
  /// What take() posted is complete: what it has brought goes to `ready`. Another worker may have
  /// been faster.
  void on_completion(ReadyNodes& ready);

 private:
  HomeLink& home_;
  Grant grant_;
  std::uint64_t wr_id_;
  std::uint64_t most_;
  LocalMemory& memory_;
  WorkerCounters& counters_;
  OldestEntries taking_;     ///< while some are being taken
  std::uint64_t count_ = 0;  ///< of these; 0: none are being taken
};

}  // namespace rockhopper::dag
