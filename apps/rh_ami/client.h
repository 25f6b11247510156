// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/common/control_channel.h"
#include "apps/common/watch.h"
#include "apps/rh_ami/node.h"
#include "apps/rh_ami/report.h"
#include "apps/rh_ami/run.h"

namespace rockhopper::apps::messages {

/// The end that decides about the workload and measures it.
class Client {
 public:
  /// References must outlive it.
  Client(Node& node, const Options& options, std::uint64_t seed);

  /// Runs all that the options ask for and prints the tables. Tells the server of a failure.
  [[nodiscard]] Expected<void> run();
  /// One object about all results so far.
  [[nodiscard]] nlohmann::json report() const;

 private:
  [[nodiscard]] Expected<void> connect();
  [[nodiscard]] Expected<Agreement> agree(const nlohmann::json& offer) const;
  [[nodiscard]] Expected<void> run_all();
  [[nodiscard]] Expected<Measurement> measure(const RunSpec& spec);
  /// Gives the run its turns until it is over, or something else has failed.
  [[nodiscard]] Expected<void> drive(Run& run);
  /// Has the callbacks of a run that ends early called.
  void wind_up(Run& run);

  Node& node_;
  const Options& options_;
  const std::uint64_t seed_;
  std::optional<ControlChannel> channel_;
  std::unique_ptr<Watch> watch_;
  std::unique_ptr<Run> run_;  ///< whose the answers are
  std::vector<Result> results_;
};

}  // namespace rockhopper::apps::messages
