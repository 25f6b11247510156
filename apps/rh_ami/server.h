// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/common/measuring.h"
#include "apps/rh_ami/node.h"
#include "apps/rh_ami/target.h"

namespace rockhopper::apps::messages {

/// The end that serves one client's workload.
class Server final : public MeasuringServer<RunSpec> {
 public:
  /// References must outlive it.
  Server(Node& node, const Options& options);
  ~Server() override { node_.set_work(nullptr); }

 private:
  [[nodiscard]] Expected<void> greet() override;
  [[nodiscard]] nlohmann::json details() const override;
  [[nodiscard]] Expected<RunSpec> run_from_json(const nlohmann::json& json) const override;
  [[nodiscard]] Expected<void> prepare(const RunSpec& spec) override;
  [[nodiscard]] Expected<nlohmann::json> serve(const RunSpec& spec) override;
  [[nodiscard]] std::string served(const RunSpec& spec) const override;
  /// How many instructions the run had, once the client has said so.
  [[nodiscard]] Expected<void> look();

  Node& node_;
  const Options& ami_options_;
  std::unique_ptr<Target> target_;
  std::optional<std::uint64_t> instructions_;  ///< of the run, when the client has said so
  std::uint64_t handled_ = 0;                  ///< messages of all runs
};

}  // namespace rockhopper::apps::messages
