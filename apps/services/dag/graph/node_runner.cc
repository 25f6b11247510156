// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/graph/node_runner.h"

#include <utility>

namespace rockhopper::dag {

NodeRunner::NodeRunner(const FunctionRegistry& registry, CommandRunner run_command)
    : registry_(registry), run_command_(std::move(run_command)) {}

Expected<void> NodeRunner::run_task(const Task& task, const TaskCall& call,
                                    std::vector<std::byte>& output) const {
  if (task.kind == TaskKind::command) {
    if (!run_command_) return fail(ErrorCode::unsupported, "commands are not run here");
    return run_command_(call, output);
  }
  const FunctionRegistry::Entry* entry = registry_.find(task.function);
  if (entry == nullptr) return registry_.check(task.function);
  if (!entry->function) {
    return fail(ErrorCode::unsupported, "function {} is not run here", key_text(entry->name));
  }
  return entry->function(call, output);
}

Expected<void> NodeRunner::run(std::string_view key, std::span<const Task> tasks,
                               std::span<const TaskInput> inputs, std::vector<std::byte>& output) {
  output.clear();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    previous_.swap(output);
    output.clear();
    const TaskCall call{key, tasks[i].arguments, previous_, inputs};
    if (auto done = run_task(tasks[i], call, output); !done) {
      return fail(done.error().code, "node {}, task {}: {}", key_text(key), i,
                  done.error().message);
    }
  }
  return {};
}

Expected<void> NodeRunner::run(const Graph& graph, NodeIndex node,
                               std::span<const TaskInput> inputs, std::vector<std::byte>& output) {
  tasks_.clear();
  for (std::uint32_t i = 0; i < graph.tasks_of(node); ++i) {
    tasks_.push_back(graph.task(node, i));
  }
  return run(graph.key(node), tasks_, inputs, output);
}

}  // namespace rockhopper::dag
