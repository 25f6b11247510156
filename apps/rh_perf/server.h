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

namespace rockhopper::apps::perf {

/// The end that serves one client: makes its memory ready, keeps receives posted, sends back what
/// a latency run needs sent back, and checks the data.
class Server final : public MeasuringServer<RunSpec> {
 public:
  /// References must outlive it.
  Server(Backend& backend, const Options& options);

 private:
  [[nodiscard]] Expected<void> greet() override;
  [[nodiscard]] Error cause(Error error) const override { return pump_.error().value_or(error); }
  [[nodiscard]] nlohmann::json details() const override;
  [[nodiscard]] Expected<RunSpec> run_from_json(const nlohmann::json& json) const override;
  [[nodiscard]] Expected<void> prepare(const RunSpec& spec) override;
  [[nodiscard]] Expected<nlohmann::json> serve(const RunSpec& spec) override;
  [[nodiscard]] std::string served(const RunSpec& spec) const override;

  Backend& backend_;
  const Options& perf_options_;
  Agreement agreement_;
  std::optional<Layout> layout_;
  Pump pump_;
  std::unique_ptr<Traffic> traffic_;
};

}  // namespace rockhopper::apps::perf
