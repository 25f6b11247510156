// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>

#include "apps/services/dag/schedule/affinity.h"
#include "apps/services/dag/schedule/arenas.h"
#include "apps/services/dag/schedule/board_view.h"
#include "apps/services/dag/schedule/executor_queue.h"
#include "apps/services/dag/schedule/home_link.h"
#include "apps/services/dag/schedule/membership.h"
#include "apps/services/dag/schedule/output_cache.h"
#include "apps/services/dag/schedule/ready_nodes.h"
#include "apps/services/dag/schedule/search_pace.h"
#include "apps/services/dag/schedule/thief.h"
#include "apps/services/dag/schedule/window.h"
#include "apps/services/dag/schedule/worker.h"
#include "apps/services/dag/schedule/worker_counters.h"
#include "apps/services/dag/schedule/worker_ids.h"
#include "apps/services/dag/schedule/worker_runs.h"

namespace rockhopper::dag {

/// What the nodes that a worker has in hand have in common: the worker's parts. The worker makes it
/// and outlives it.
struct Workplace {
  /// Requests that others leave room for on the home link when an attempt posts one at a time.
  static constexpr std::size_t kLinkReserve = 16;

  const Worker::Init& init;
  roce::ProtectionDomain pd;
  WorkerCounters& counters;
  HomeLink& home;
  const BoardView& board;
  Thief& thief;

  Affinity affinity;
  WorkerRuns runs;
  ReadyNodes ready;
  Arenas arenas;
  Window window{};
  ExecutorQueue queue;
  SearchPace search;
  Membership membership{};
  OutputCache cache{};
  NodeView scratch{};  ///< of other nodes' records

  std::uint64_t now_ns = 0;  ///< of this turn
  bool moved = false;        ///< something has happened in this turn

  /// The worker's number at the home.
  [[nodiscard]] std::uint32_t me() const { return init.grant.client; }
  [[nodiscard]] std::uint64_t context(AskKind kind, std::uint32_t which = 0,
                                      std::uint32_t number = 0) const {
    return AskContext{.worker = me(), .kind = kind, .which = which, .number = number}.bits();
  }
  /// As many nodes are wanted on their way to the executor.
  [[nodiscard]] std::size_t wanted_ahead() const {
    return queue.wanted(init.executor.room(), now_ns);
  }
};

}  // namespace rockhopper::dag
