// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <vector>

#include "apps/dag/graph/task.h"

namespace rockhopper::apps::workflow {

/// Runs a program of this machine and waits for it (a dag::CommandRunner): found by PATH, in the
/// working directory of this one, with the node's key in the environment as RH_DAG_NODE. Its
/// standard input is what the node's task before it has left, or of the first task all inputs in
/// the order of their keys; its standard output is the task's. Standard error is this program's.
/// Fails if it does not start, or ends with another status than 0; after a stop signal it is ended
/// too.
[[nodiscard]] Expected<void> run_command(const dag::TaskCall& call, std::vector<std::byte>& output);

}  // namespace rockhopper::apps::workflow
