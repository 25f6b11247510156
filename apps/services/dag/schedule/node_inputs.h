// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/services/dag/graph/task.h"
#include "apps/services/dag/schedule/node_record.h"
#include "apps/services/dag/schedule/output_cache.h"
#include "apps/services/dag/status.h"

namespace rockhopper::dag {

/// The outputs of a node's predecessors by data, which its tasks read. Keeps its memory from one
/// node to the next, but for what is large.
class NodeInputs {
 public:
  /// Takes what is in the cache, of that run. `node` must stay while it is used.
  void begin(const NodeView& node, std::uint64_t run, const OutputCache& cache);

  [[nodiscard]] std::size_t size() const { return sources_.size(); }
  [[nodiscard]] std::size_t cached() const { return cached_; }
  /// The input came out of the cache, and is not to be READ.
  [[nodiscard]] bool is_cached(std::size_t input) const { return is_cached_[input]; }
  [[nodiscard]] const NodeLink& source(std::size_t input) const {
    return node_->predecessors[sources_[input]];
  }
  /// Not ok: some input cannot be read.
  [[nodiscard]] Status status() const { return status_; }

  void take(std::size_t input, std::span<const std::byte> bytes);
  void fail(Status why) { status_ = why; }
  /// All are there: puts those that have been READ into the cache.
  void fill(OutputCache& cache, std::uint64_t run) const;
  /// Returns them as tasks take them, in the order of their keys; good until the next begin().
  [[nodiscard]] std::span<const TaskInput> for_tasks();
  /// Gives memory back that few nodes need.
  void trim(std::size_t bytes_max);

 private:
  const NodeView* node_ = nullptr;
  std::vector<std::uint32_t> sources_;          ///< of the node's predecessors, those by data
  std::vector<std::vector<std::byte>> inputs_;  ///< by source; may be longer
  std::vector<bool> is_cached_;                 ///< by source
  std::size_t cached_ = 0;                      ///< how many of these are true
  std::vector<TaskInput> task_inputs_;
  Status status_ = Status::ok;
};

}  // namespace rockhopper::dag
