// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/workflow_graph.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "apps/rh_dag/functions.h"
#include "apps/services/dag/graph/digest_task.h"
#include "apps/services/dag/graph/graph_builder.h"

namespace rockhopper::apps::dag_node {
namespace {

std::uint64_t scaled_ns(std::uint64_t value, double scale) {
  // More than a graph may have altogether is refused when it is made.
  const double most = static_cast<double>(dag::kTotalTimeMaxNs);
  return static_cast<std::uint64_t>(
      std::llround(std::min(static_cast<double>(value) * scale, most)));
}

Expected<std::uint64_t> output_bytes(const Workflow& workflow, const Workflow::Task& task,
                                     double scale) {
  double bytes = 0;
  for (const std::uint32_t file : task.outputs) {
    bytes += std::round(static_cast<double>(workflow.files[file].bytes) * scale);
  }
  if (bytes > static_cast<double>(kOutputBytesMax)) {
    return fail(ErrorCode::exhausted,
                "task {} would write {:.0f} bytes; the limit is {}: take a smaller --size-scale",
                dag::key_text(task.id), bytes, kOutputBytesMax);
  }
  return static_cast<std::uint64_t>(bytes);
}

Expected<void> add_tasks(dag::GraphBuilder& builder, dag::NodeIndex node, const Workflow& workflow,
                         const Workflow::Task& task, const Replay& replay) {
  if (replay.commands) {
    if (task.command.empty()) {
      return fail(ErrorCode::invalid_argument, "task {} has no command", dag::key_text(task.id));
    }
    const std::vector<std::string_view> words(task.command.begin(), task.command.end());
    builder.add_command(node, words);
    return {};
  }
  const std::uint64_t ns = scaled_ns(task.runtime_ns.value_or(0), replay.scale);
  if (ns > 0) builder.add_function(node, kWaitFunction, emit_wait(ns));
  ROCKHOPPER_TRY(const auto bytes, output_bytes(workflow, task, replay.size_scale));
  builder.add_function(node, dag::kDigestFunction,
                       dag::DigestArguments{.seed = replay.seed, .output_bytes = bytes}.emit());
  return {};
}

}  // namespace

Expected<dag::Graph> to_graph(const Workflow& workflow, const Replay& replay,
                              const dag::FunctionRegistry& registry) {
  dag::GraphBuilder builder;
  for (const Workflow::Task& task : workflow.tasks) {
    const auto node = builder.add_node(
        {.key = task.id,
         .work_ns = scaled_ns(task.runtime_ns.value_or(0), replay.commands ? 1 : replay.scale),
         .priority = task.priority});
    ROCKHOPPER_TRY(add_tasks(builder, node, workflow, task, replay));
    for (const Workflow::Dependency& dependency : task.dependencies) {
      const std::uint8_t set = dependency.data ? dag::kData : dag::kOrderOnly;
      builder.add_edge(dependency.task, node, {.set = set});
    }
  }
  return builder.build(registry);
}

}  // namespace rockhopper::apps::dag_node
