// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "apps/rh_perf/operation.h"
#include "apps/rh_perf/workload.h"

namespace rockhopper::apps::perf {

/// A run and what came of it.
struct Result {
  RunSpec spec;
  Measurement measurement;
  bool validated = false;
  LockStatistics locks{};  ///< at the target, of scopes
};

/// Adds what the other end has measured of a bidirectional run.
void add(Measurement& measurement, const Measurement& other);

[[nodiscard]] double operations_per_s(const Measurement& measurement);
[[nodiscard]] double gbit_per_s(const RunSpec& spec, double operations_per_s);

/// perftest's columns.
[[nodiscard]] std::string table_header(RunKind kind, bool gbits);
[[nodiscard]] std::string table_row(const Result& result, bool gbits);
[[nodiscard]] nlohmann::json result_json(const Result& result);

}  // namespace rockhopper::apps::perf
