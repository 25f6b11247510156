// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <optional>

#include "apps/common/command_line.h"
#include "apps/common/option_set.h"

namespace rockhopper::apps::dag_node {

/// The commands of rh-dag that are on the network.
class Commands {
 public:
  /// Adds them.
  explicit Commands(OptionSet app);
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;
  ~Commands();

  /// Runs the one that was given, if it is one of these.
  [[nodiscard]] std::optional<ExitStatus> run(const CommandLine& line);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace rockhopper::apps::dag_node
