// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>

#include "apps/common/latency_histogram.h"
#include "apps/rh_perf/traffic.h"

namespace rockhopper::apps::perf {

/// What one end measured of a run.
struct Measurement {
  std::uint64_t operations = 0;
  double seconds = 0;
  double peak_operations_per_s = 0;  ///< bandwidth: of the best tenth of the run
  double packets_per_operation = 0;  ///< bandwidth: both ways at this end; 0: not known
  std::optional<LatencySummary> latency{};

  /// What the server tells of its part of a bidirectional run.
  void describe(Fields& fields);
};

/// Keeps each queue pair's window full for the run's warm-up, then for its iterations or time.
/// `cq_moderation`: every so many requests are signaled, at most half the window.
[[nodiscard]] Expected<Measurement> run_bandwidth(Traffic& traffic, const RunSpec& spec,
                                                  std::uint32_t cq_moderation);

/// One operation at a time on the first queue pair: the duration of READs and atomics, and half a
/// round trip of SENDs and WRITEs, which the peer sends back (see PongServer). Scopes one at a time
/// on each queue pair. `peer_begins`: of
/// WRITEs, the peer sends one more before ours and then waits for our last, as perftest's server.
[[nodiscard]] Expected<Measurement> run_latency(Traffic& traffic, const RunSpec& spec,
                                                bool peer_begins = false);

/// One operation for each slot of each queue pair, each with data of its own; what comes back is
/// checked here, what is left at the peer by its Traffic::check_validation().
[[nodiscard]] Expected<void> run_validation(Traffic& traffic, const RunSpec& spec);

/// The peer's part of run_latency: sends SENDs and WRITEs back.
class PongServer {
 public:
  PongServer(Traffic& traffic, const RunSpec& spec) : traffic_(traffic), spec_(spec) {}
  /// Once a turn of the serving loop.
  [[nodiscard]] Expected<void> turn();

 private:
  Traffic& traffic_;
  const RunSpec spec_;
  std::uint64_t answered_ = 0;
};

}  // namespace rockhopper::apps::perf
