// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <string>

#include "apps/common/measuring.h"
#include "apps/rh_ami/node.h"
#include "apps/rh_ami/run.h"

namespace rockhopper::apps::messages {

/// The end that decides about the workload and measures it.
class Client final : public MeasuringClient<RunSpec> {
 public:
  /// References must outlive it.
  Client(Node& node, const Options& options, std::uint64_t seed);

 private:
  [[nodiscard]] Expected<void> greet() override;
  [[nodiscard]] Expected<Agreement> agree(const Offer& offer) const;
  [[nodiscard]] Expected<void> check_peer();
  [[nodiscard]] nlohmann::json details() const override;
  [[nodiscard]] std::string title(const RunSpec& spec, bool first) const override;
  [[nodiscard]] Expected<ResultLine> measure(const RunSpec& spec) override;
  /// Gives the run its turns until it is over, or something else has failed.
  [[nodiscard]] Expected<void> drive(Run& run);
  /// Has the callbacks of a run that ends early called.
  void wind_up(Run& run);

  Node& node_;
  const Options& ami_options_;
  std::unique_ptr<Run> run_;  ///< whose the answers are
};

}  // namespace rockhopper::apps::messages
