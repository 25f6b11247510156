// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/common/measuring.h"
#include "apps/rh_perf/layout.h"
#include "apps/rh_perf/options.h"
#include "apps/rh_perf/pump.h"
#include "apps/rh_perf/workload.h"

namespace rockhopper::apps::perf {

/// The end that decides about the workload and measures it.
class Client final : public MeasuringClient<RunSpec> {
 public:
  /// References must outlive it.
  Client(Backend& backend, const Options& options, std::uint64_t seed);

 private:
  [[nodiscard]] Expected<void> greet() override;
  [[nodiscard]] Expected<Side> agree();
  [[nodiscard]] Error cause(Error error) const override { return pump_.error().value_or(error); }
  [[nodiscard]] nlohmann::json details() const override;
  [[nodiscard]] std::string title(const RunSpec& spec, bool first) const override;
  [[nodiscard]] Expected<ResultLine> measure(const RunSpec& spec) override;
  /// Has the server make ready for a run, and this end too.
  [[nodiscard]] Expected<void> begin(const RunSpec& spec);
  [[nodiscard]] Expected<void> validate(const RunSpec& spec);
  [[nodiscard]] Expected<void> check_words(const RunSpec& spec, const nlohmann::json& stopped);

  Backend& backend_;
  const Options& perf_options_;
  Agreement agreement_;
  std::optional<Layout> layout_;
  Pump pump_;
  std::unique_ptr<Traffic> traffic_;
};

}  // namespace rockhopper::apps::perf
