// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <functional>

#include "apps/services/dag/graph/node_runner.h"

namespace rockhopper::apps::dag_node {

/// Runs programs of this machine and waits for them: found by PATH, in the working directory of
/// this one, with the node's key in the environment as RH_DAG_NODE. A program's standard input is a
/// pipe with what the node's task before it has left, or of the first task all inputs in the order
/// of their keys; its standard output, another pipe, is the task's. Standard error is this
/// program's. A task fails if its program does not start, ends with another status than 0, or
/// writes more than an output may have. When `stopped` says so, which is asked several times a
/// second on the task's thread, the program is ended too. What a program has started ends with it
/// (CommandProcess), or at the latest with the runner.
///
/// This process becomes the parent of orphans and ignores SIGPIPE, and a second signal to stop
/// kills all programs.
[[nodiscard]] dag::CommandRunner make_command_runner(std::function<bool()> stopped);

}  // namespace rockhopper::apps::dag_node
