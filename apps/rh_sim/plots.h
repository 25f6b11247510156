// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>

#include "apps/rh_sim/simulation.h"
#include "stack/error.h"

namespace rockhopper::apps::sim {

/// Draws the curves of a run: PREFIX-rates.svg and PREFIX-queues.svg, and the same figures as CSV.
/// The folder is made if need be.
[[nodiscard]] Expected<void> write_plots(const Simulation& simulation, const std::string& prefix);

}  // namespace rockhopper::apps::sim
