// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdio>
#include <string>

#include "apps/rh_sim/simulation.h"

namespace rockhopper::apps::sim {

/// What came of each flow, group, switch port and the hosts' counters, as tables. Says nothing of
/// real time, so that equal runs give equal bytes.
void print_report(std::FILE* out, Simulation& simulation);

/// The same as one JSON object of one line.
[[nodiscard]] std::string json_report(Simulation& simulation);

}  // namespace rockhopper::apps::sim
