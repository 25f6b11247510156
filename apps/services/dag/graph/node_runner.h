// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "apps/services/dag/graph/function_registry.h"
#include "apps/services/dag/graph/graph.h"

namespace rockhopper::dag {

/// Runs a command task as a TaskFunction: `call.arguments` are for parse_command().
using CommandRunner = TaskFunction;

/// Runs nodes: their tasks one after another (DG-2), each with the output of the one before it.
/// What the last one leaves is the node's output. One thread.
class NodeRunner {
 public:
  /// Without `run_command` a command fails. The registry must outlive it.
  explicit NodeRunner(const FunctionRegistry& registry, CommandRunner run_command = {});

  /// `inputs` are the outputs of the predecessors by data, in the order of their keys. Ends with
  /// the first task that fails; the error names node and task.
  [[nodiscard]] Expected<void> run(std::string_view key, std::span<const Task> tasks,
                                   std::span<const TaskInput> inputs,
                                   std::vector<std::byte>& output);
  /// The same for a node of a graph.
  [[nodiscard]] Expected<void> run(const Graph& graph, NodeIndex node,
                                   std::span<const TaskInput> inputs,
                                   std::vector<std::byte>& output);

 private:
  [[nodiscard]] Expected<void> run_task(const Task& task, const TaskCall& call,
                                        std::vector<std::byte>& output) const;

  const FunctionRegistry& registry_;
  CommandRunner run_command_;
  std::vector<Task> tasks_;
  std::vector<std::byte> previous_;
};

}  // namespace rockhopper::dag
