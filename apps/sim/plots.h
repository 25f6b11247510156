// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>

#include "apps/sim/simulation.h"
#include "stack/error.h"

namespace rockhopper::apps::sim {

/// Writes the curves of a run into a folder, which is made if need be: rates.svg and queues.svg,
/// and the same figures as rates.csv and queues.csv.
[[nodiscard]] Expected<void> write_plots(const Simulation& simulation, const std::string& folder);

}  // namespace rockhopper::apps::sim
