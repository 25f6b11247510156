// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/common/control_channel.h"
#include "apps/rh_perf/layout.h"
#include "apps/rh_perf/options.h"
#include "apps/rh_perf/pump.h"
#include "apps/rh_perf/report.h"
#include "apps/rh_perf/traffic.h"

namespace rockhopper::apps::perf {

/// The end that decides about the workload and measures it.
class Client {
 public:
  /// References must outlive it.
  Client(Backend& backend, const Options& options, std::uint64_t seed);

  /// Runs all that the options ask for and prints the tables. Tells the server of a failure.
  [[nodiscard]] Expected<void> run();
  /// One object about all results so far.
  [[nodiscard]] nlohmann::json report() const;

 private:
  [[nodiscard]] Expected<void> connect();
  [[nodiscard]] Expected<void> greet();
  [[nodiscard]] Expected<void> run_all();
  [[nodiscard]] Expected<Measurement> measure(const RunSpec& spec);
  [[nodiscard]] Expected<void> validate(const RunSpec& spec);
  /// Has the server make ready for a run, and this end too.
  [[nodiscard]] Expected<void> start(const RunSpec& spec);
  /// Ends a run; the server's part of its result.
  [[nodiscard]] Expected<nlohmann::json> stop();
  [[nodiscard]] Expected<void> check_words(const RunSpec& spec, const nlohmann::json& stopped);
  void print_title(const RunSpec& spec) const;

  Backend& backend_;
  const Options& options_;
  const std::uint64_t seed_;
  Agreement agreement_;
  Side side_;
  std::optional<Layout> layout_;
  Pump pump_;
  std::optional<ControlChannel> channel_;
  std::unique_ptr<Watch> watch_;
  std::unique_ptr<Traffic> traffic_;
  std::vector<Result> results_;
  LockStatistics lock_statistics_;  ///< of the last measurement, at the server
};

}  // namespace rockhopper::apps::perf
