// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "apps/services/dag/graph/task.h"

namespace rockhopper::dag {

/// Runs the tasks of a node (DG-2), at once or on another thread.
class NodeExecutor {
 public:
  struct Job {
    std::uint64_t ticket = 0;  ///< for Worker::complete()
    std::string_view key;      ///< of the node, without the run's name
    std::span<const Task> tasks;
    std::span<const TaskInput> inputs;  ///< of the predecessors by data, in the order of keys
  };
  NodeExecutor() = default;
  NodeExecutor(const NodeExecutor&) = delete;
  NodeExecutor& operator=(const NodeExecutor&) = delete;
  virtual ~NodeExecutor() = default;
  /// Returns how many jobs it would take now.
  [[nodiscard]] virtual std::size_t room() const = 0;
  /// Only while there is room. What the job names stays until complete(), which may be called from
  /// within.
  virtual void start(const Job& job) = 0;
  /// The ticket's result is not wanted any more (canceled run, lost worker): complete() is harmless
  /// and may be early. What the job names stays until then all the same.
  virtual void abandon(std::uint64_t /*ticket*/) {}
};

}  // namespace rockhopper::dag
