// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

#include "apps/rh_dag/records.h"
#include "apps/services/dag/graph/graph.h"
#include "apps/services/dag/schedule/board.h"
#include "apps/services/dag/schedule/home_request.h"

namespace rockhopper::apps::dag_node {

/// What a home is asked about a run. Each waits for the answer, and fails with one line.
class RunRequests {
 public:
  /// `records` is connected to the home, server `home`, and must outlive it.
  RunRequests(Records& records, std::uint16_t home) : records_(records), home_(home) {}

  struct Submission {
    std::string name;
    std::uint32_t priority = 1;  ///< class, 0 is the most urgent one
    dag::RunAttempts attempts;
  };
  /// Uploads the graph and has it examined; the board tells what comes of it.
  [[nodiscard]] Expected<void> submit(const dag::Graph& graph, const Submission& submission);
  [[nodiscard]] Expected<void> cancel(const std::string& run);
  /// With its outputs at all servers. `run` as the board has it.
  [[nodiscard]] Expected<void> drop(const dag::RunSlot& run);

 private:
  [[nodiscard]] Expected<dag::Result> wait(dag::Started started, const char* what);
  [[nodiscard]] Expected<void> ask(std::uint8_t code, const std::string& run, const char* what);

  Records& records_;
  std::uint16_t home_;
};

/// Fails unless it can be a run's.
[[nodiscard]] Expected<void> check_run_name(const std::string& name);

}  // namespace rockhopper::apps::dag_node
