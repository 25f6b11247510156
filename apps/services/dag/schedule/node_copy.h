// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "apps/services/dag/schedule/node_record.h"
#include "apps/services/dag/schedule/worker_runs.h"

namespace rockhopper::dag {

/// What a node's record says, as a worker has READ it. Refers to the bytes that were READ. Keeps
/// its memory from one node to the next.
class NodeCopy {
 public:
  /// Returns false if the bytes are not the record of the node that `entry` names, of its run, or
  /// are damaged, or lead out of the run: then nothing of it may be used.
  [[nodiscard]] bool parse(std::span<const std::byte> bytes, const DequeEntry& entry,
                           const WorkerRuns& runs);

  [[nodiscard]] const NodeView& node() const { return node_; }
  [[nodiscard]] std::string_view run_name() const { return record_key_.substr(0, run_length_); }
  /// Without the run's name.
  [[nodiscard]] std::string_view key() const { return record_key_.substr(run_length_ + 1); }
  /// RUN/NODE, as the records of the node and of its output have it.
  [[nodiscard]] std::string_view record_key() const { return record_key_; }

 private:
  NodeView node_;
  std::string_view record_key_;
  std::size_t run_length_ = 0;  ///< below the key's length, once parse() has been true
};

}  // namespace rockhopper::dag
