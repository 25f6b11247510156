// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>

#include "apps/common/option_set.h"
#include "apps/rh_dag/record_commands.h"

namespace rockhopper::apps::dag_node {

struct StatusOptions {
  RawConnectOptions connect;
  double watch_s = 0;  ///< between tables; 0: one only
};
void add_status_options(OptionSet app, StatusOptions& options);

/// A run of `rh-dag status`: what a home shows of runs and workers, by READs alone.
[[nodiscard]] Expected<void> show_status(const StatusOptions& options, const Site& site);

/// `rh-dag cancel` and `rh-dag drop`.
enum class RunVerb : std::uint8_t { cancel, drop };
struct RunOptions {
  RawConnectOptions connect;
  std::string run;
  bool wait = false;
};
void add_run_options(OptionSet app, RunOptions& options, RunVerb verb);
[[nodiscard]] Expected<void> change_run(const RunOptions& options, RunVerb verb, const Site& site);

}  // namespace rockhopper::apps::dag_node
