// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>
#include <string_view>

#include "apps/rh_dag/workflow.h"
#include "stack/error.h"

namespace rockhopper::apps::dag_node {

/// Reads a workflow of WfFormat 1.5 or 1.6 (wfcommons.org). A mistake is one line that begins with
/// its place, as workflow.specification.tasks[3].parents[0]: what the schema requires and is not
/// there or is of another type; ids that are there twice, or that nobody has; parents and children
/// that do not agree; a file that two tasks write. Members that the format does not know are let
/// pass, as its schema does. Cycles are found when a graph is made of it.
///
/// A task that reads a file depends on the task that writes it, also where that is not its parent.
/// A workflow of WfFormat 1.0 to 1.6. Fails with the place of the first mistake.
[[nodiscard]] Expected<Workflow> parse_wfformat(std::string_view json_text);

/// The same of a file, whose path then begins the line.
[[nodiscard]] Expected<Workflow> read_wfformat(const std::string& path);

}  // namespace rockhopper::apps::dag_node
