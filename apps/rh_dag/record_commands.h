// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/common/option_set.h"
#include "apps/rh_dag/connect_options.h"
#include "apps/rh_dag/record_task.h"
#include "stack/eal.h"

namespace rockhopper::apps::dag_node {

/// The options of the commands for records, as OptionParser fills them in.
struct RecordOptions {
  RawConnectOptions connect;
  std::vector<std::string> keys;
  std::string key;  ///< where there is one only
  std::string value;
  bool has_value = false;
  std::string file;          ///< of the value; - is standard input
  std::string capacity;      ///< empty: what the value needs
  std::uint64_t repeat = 0;  ///< 0: each key once, and its data
  std::uint16_t window = 16;
  bool output = false;  ///< the keys are those of nodes, whose outputs are wanted
  std::string batch = "-";
};

/// The commands for records: `rh-dag get` and so on.
void add_get_options(OptionSet app, RecordOptions& options);
void add_value_options(OptionSet app, RecordOptions& options, Verb verb);
void add_delete_options(OptionSet app, RecordOptions& options);
void add_batch_options(OptionSet app, RecordOptions& options);

/// What is to be done, and what with: read before anything is connected.
struct RecordWork {
  std::vector<RecordTask> tasks;
};
[[nodiscard]] Expected<RecordWork> make_work(const RecordOptions& options, Verb verb);

/// Where a command is run.
struct Site {
  const ConnectOptions& connect;
  const EndpointConfig& config;
  const stack::Arguments& arguments;
};
[[nodiscard]] Expected<void> run_tasks(const RecordOptions& options, const RecordWork& work,
                                       const Site& site);
[[nodiscard]] Expected<void> run_batch(const RecordOptions& options, const Site& site);

}  // namespace rockhopper::apps::dag_node
