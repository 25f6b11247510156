// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <span>
#include <string>

#include "apps/rh_dag/run_log.h"

namespace rockhopper::apps::dag_node {

/// A run as a Gantt chart, an SVG document: a row a worker, a bar a node, stolen ones in another
/// colour, those of `path` with a frame. Bars that are too short to be seen alone are drawn as one,
/// so that a run of a million nodes is no larger than the chart can show.
[[nodiscard]] std::string to_gantt(const RunLog& log, std::span<const std::string> path);

}  // namespace rockhopper::apps::dag_node
