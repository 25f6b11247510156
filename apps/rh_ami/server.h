// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "apps/common/control_channel.h"
#include "apps/common/watch.h"
#include "apps/rh_ami/node.h"
#include "apps/rh_ami/target.h"

namespace rockhopper::apps::messages {

/// The end that serves one client's workload.
class Server {
 public:
  /// References must outlive it.
  Server(Node& node, const Options& options);

  /// Serves one client to its end. Tells it of a failure.
  [[nodiscard]] Expected<void> run();
  [[nodiscard]] nlohmann::json report() const;

 private:
  [[nodiscard]] Expected<void> greet();
  [[nodiscard]] Expected<void> serve();
  [[nodiscard]] Expected<void> serve_run(const RunSpec& spec);
  /// Turns until the client's "stop" and until all that it has sent has been handled.
  [[nodiscard]] Expected<void> serve_until_stop(const RunSpec& spec);
  [[nodiscard]] Expected<void> look_for_stop();

  Node& node_;
  const Options& options_;
  std::optional<ControlChannel> channel_;
  std::unique_ptr<Watch> watch_;
  std::unique_ptr<Target> target_;
  std::optional<std::uint64_t> instructions_;  ///< of the run, when the client has said so
  std::uint64_t handled_ = 0;                  ///< messages of all runs
  nlohmann::json results_ = nlohmann::json::array();
};

}  // namespace rockhopper::apps::messages
