// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cstdint>

namespace rockhopper::dag {

/// What a run of a graph is measured against, all times in the same unit.
struct MakespanBounds {
  double least = 0;   ///< no schedule is shorter: the work's share of each worker, or the path
  double greedy = 0;  ///< no schedule is longer in which a worker idles only while no node is ready
  double accepted = 0;  ///< what a run may take to count as well distributed
};

/// How much longer than work / workers + critical path a run may take.
inline constexpr double kAcceptedFactor = 1.25;

/// `workers` is 1 or more. Times to wait of edges are part of the path; with them `greedy` is an
/// estimate.
[[nodiscard]] constexpr MakespanBounds makespan_bounds(double work, double critical_path,
                                                       std::uint32_t workers) {
  const double share = work / workers;
  return {.least = std::max(share, critical_path),
          .greedy = share + critical_path * (workers - 1) / workers,
          .accepted = kAcceptedFactor * (share + critical_path)};
}

}  // namespace rockhopper::dag
