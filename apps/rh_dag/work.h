// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "apps/rh_dag/record_commands.h"
#include "apps/rh_dag/work_options.h"

namespace rockhopper::apps::dag_node {

/// A run of `rh-dag work`: runs nodes of whatever runs the home has, until a signal comes or there
/// have been as many runs as are wanted. What it has begun is finished then. A worker that is
/// fenced joins again.
[[nodiscard]] Expected<void> work(const WorkOptions& options, const Site& site);

}  // namespace rockhopper::apps::dag_node
