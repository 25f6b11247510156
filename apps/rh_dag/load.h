// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "apps/rh_dag/load_options.h"
#include "apps/rh_dag/record_commands.h"

namespace rockhopper::apps::dag_node {

/// A run of `rh-dag load`: uploads the graph, waits until it has been examined, or until the run
/// has ended, and then reads all outputs. Fails if the run was refused, failed or was canceled.
[[nodiscard]] Expected<void> load(const LoadOptions& options, const Loaded& loaded,
                                  const Site& site);

}  // namespace rockhopper::apps::dag_node
