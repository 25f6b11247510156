// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/common/option_set.h"
#include "apps/rh_dag/connect_options.h"
#include "apps/services/dag/schedule/worker.h"

namespace rockhopper::apps::dag_node {

struct WorkOptions {
  RawConnectOptions connect;
  std::string name;  ///< empty: the machine's, and the process's number
  std::vector<std::uint32_t> labels;
  unsigned slots = 1;
  bool runs_inline = false;
  bool allow_commands = false;
  bool no_steals = false;
  std::uint16_t window = 32;
  std::string compute = "sleep";
  std::string log;         ///< a file, or a folder
  std::uint64_t runs = 0;  ///< to end after; 0: no number
  bool until_idle = false;
};

void add_work_options(OptionSet app, WorkOptions& options);
/// Checks what OptionParser cannot, and fills in the name.
[[nodiscard]] Expected<void> finish_options(WorkOptions& options);

}  // namespace rockhopper::apps::dag_node
