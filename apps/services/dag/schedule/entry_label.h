// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "apps/services/dag/schedule/deque.h"

/// DequeEntry::label of nodes that have an affinity. It is never 0, which is for anybody, and no
/// more than a hint: the node's record and the states of its predecessors decide.
namespace rockhopper::dag {

[[nodiscard]] constexpr std::uint32_t entry_worker(std::uint32_t client) {
  return kWorkerLabel | (client & (kWorkerLabel - 1));
}
/// A label with nothing but zeros there is written as the worker 0, which is none.
[[nodiscard]] constexpr std::uint32_t entry_label(std::uint32_t label) {
  const std::uint32_t low = label & (kWorkerLabel - 1);
  return low != 0 ? low : kWorkerLabel;
}

}  // namespace rockhopper::dag
