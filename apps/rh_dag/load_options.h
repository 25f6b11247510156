// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/common/option_set.h"
#include "apps/rh_dag/connect_options.h"
#include "apps/rh_dag/random_graph.h"
#include "apps/rh_dag/workflow_graph.h"

namespace rockhopper::apps::dag_node {

struct LoadOptions {
  RawConnectOptions connect;
  std::string workflow;  ///< a file of WfFormat; empty: random
  std::string random_text;
  std::string name;  ///< of the run; empty: the workflow's
  workflow::Replay replay;
  std::uint32_t priority = 1;
  std::uint32_t attempts = 3;
  bool wait = false;
  bool drop = false;
  std::uint16_t window = 64;  ///< outputs that are read at a time
};

void add_load_options(OptionSet app, LoadOptions& options);

/// The graph that is to be run, checked, and the run's name.
struct Loaded {
  dag::Graph graph;
  std::string run;
};
[[nodiscard]] Expected<Loaded> load_graph(const LoadOptions& options);

}  // namespace rockhopper::apps::dag_node
