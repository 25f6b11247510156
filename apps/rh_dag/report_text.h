// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdio>
#include <string>

#include "apps/rh_dag/run_report.h"

namespace rockhopper::apps::dag_node {

/// The report as tables for people.
void print_report(std::FILE* out, const RunReport& report);
/// The report as one JSON object.
[[nodiscard]] std::string to_json(const RunReport& report);

}  // namespace rockhopper::apps::dag_node
