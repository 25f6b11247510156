// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "apps/common/control_channel.h"
#include "apps/rh_perf/layout.h"
#include "apps/rh_perf/options.h"
#include "apps/rh_perf/pump.h"
#include "apps/rh_perf/traffic.h"

namespace rockhopper::apps::perf {

/// The end that serves one client: makes its memory ready, keeps receives posted, sends back what
/// a latency run needs sent back, and checks the data.
class Server {
 public:
  /// References must outlive it.
  Server(Backend& backend, const Options& options);

  /// Waits for a client and serves it to its end. Tells it of a failure here.
  [[nodiscard]] Expected<void> run();
  /// What the client has reported of its results.
  [[nodiscard]] nlohmann::json report() const;

 private:
  [[nodiscard]] Expected<void> serve();
  [[nodiscard]] Expected<void> greet();
  [[nodiscard]] Expected<void> serve_run(const RunSpec& spec);
  [[nodiscard]] Expected<void> serve_until_stop(const RunSpec& spec);
  /// For the watch: a message of the client in the middle of a run can only be "stop".
  [[nodiscard]] Expected<void> look_for_stop();

  Backend& backend_;
  const Options& options_;
  Agreement agreement_;
  std::optional<Layout> layout_;
  Pump pump_;
  std::optional<ControlChannel> channel_;
  std::unique_ptr<Watch> watch_;
  std::unique_ptr<Traffic> traffic_;
  bool stop_ = false;
  nlohmann::json results_ = nlohmann::json::array();
};

}  // namespace rockhopper::apps::perf
