// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/measuring.h"

namespace rockhopper::apps {

nlohmann::json latency_json(const LatencySummary& latency) {
  return {{"min", latency.min_ns * 1e-3},     {"max", latency.max_ns * 1e-3},
          {"avg", latency.average_ns * 1e-3}, {"stdev", latency.standard_deviation_ns * 1e-3},
          {"p50", latency.p50_ns * 1e-3},     {"p90", latency.p90_ns * 1e-3},
          {"p99", latency.p99_ns * 1e-3},     {"p99.9", latency.p999_ns * 1e-3}};
}

}  // namespace rockhopper::apps
