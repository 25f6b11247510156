// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "apps/rh_ami/options.h"
#include "apps/rh_ami/run.h"

namespace rockhopper::apps::messages {

/// A run and what came of it.
struct Result {
  RunSpec spec;
  Measurement measurement;
};

/// As rh-perf's tables.
[[nodiscard]] std::string table_header(Operation operation, bool gbits);
[[nodiscard]] std::string table_row(const Result& result, bool gbits);
[[nodiscard]] nlohmann::json result_json(const Result& result, bool checked);

}  // namespace rockhopper::apps::messages
