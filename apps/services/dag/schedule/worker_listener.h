// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string_view>

#include "apps/services/dag/status.h"

namespace rockhopper::dag {

/// One node that was run, told when its end is decided.
struct NodeReport {
  std::string_view run;
  std::string_view key;
  std::uint64_t start_ns = 0;  ///< as Worker::complete() was told
  std::uint64_t end_ns = 0;
  bool stolen = false;         ///< from another worker
  std::uint32_t attempts = 1;  ///< how often it was begun, this time included
  bool committed = false;      ///< false: another one runs it, or the run has ended
};

/// What a worker tells. Called from its progress().
class WorkerListener {
 public:
  WorkerListener() = default;
  WorkerListener(const WorkerListener&) = delete;
  WorkerListener& operator=(const WorkerListener&) = delete;
  virtual ~WorkerListener() = default;
  virtual void on_node(const NodeReport& /*report*/) {}
  /// The worker could join no longer or again, or the home's connection is lost: nothing that it
  /// had will count. A new Worker can be made once the client has been connected anew.
  virtual void on_lost(Status why) = 0;
};

}  // namespace rockhopper::dag
