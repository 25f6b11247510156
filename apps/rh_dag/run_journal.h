// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "apps/rh_dag/run_log.h"
#include "apps/services/dag/schedule/worker.h"

namespace rockhopper::apps::dag_node {

/// What a worker writes down of the nodes that it has run (run_log.h): into a file, which has one
/// run, or into a folder, for each run a file RUN.WORKER.log.
class RunJournal {
 public:
  RunJournal(std::string path, std::string worker);

  /// `nodes` is how many the run has.
  void add(const dag::NodeReport& report, std::uint64_t nodes);
  /// The first error there was. `steals` goes into all of its files.
  [[nodiscard]] Expected<void> close(std::uint64_t steals, std::uint64_t successes);
  /// Nodes of other runs than the file's.
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  [[nodiscard]] RunLogWriter* log_of(std::string_view run, std::uint64_t nodes);

  std::string path_;
  std::string worker_;
  bool folder_;
  std::map<std::string, RunLogWriter, std::less<>> logs_;  ///< by run
  std::optional<Error> failure_;
  std::uint64_t left_out_ = 0;
};

}  // namespace rockhopper::apps::dag_node
