// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "apps/services/dag/graph/task.h"

namespace rockhopper::dag {

/// A registered function: makes the task's output, `output` being empty when it is called. Whoever
/// registers it may do I/O in it; it may be called by any thread that runs tasks.
using TaskFunction =
    std::function<Expected<void>(const TaskCall& call, std::vector<std::byte>& output)>;

/// The functions that tasks may name, by number and version (DG-42). Filled once, then read by any
/// number of threads.
class FunctionRegistry {
 public:
  struct Entry {
    std::string name;       ///< for people; the same for all versions
    TaskFunction function;  ///< empty where the function is only known, and not run
  };

  /// Refuses an id that is there already, and two names for one number.
  [[nodiscard]] Expected<void> add(FunctionId id, std::string name, TaskFunction function);
  /// Adds a function that is known by name only, for a program that checks graphs and runs no
  /// tasks, as a server does.
  [[nodiscard]] Expected<void> add_known(FunctionId id, std::string name);

  /// Returns null if it is not registered.
  [[nodiscard]] const Entry* find(FunctionId id) const;
  /// Fails with what is known instead: another version, or no such function.
  [[nodiscard]] Expected<void> check(FunctionId id) const;

 private:
  std::map<FunctionId, Entry> entries_;
};

}  // namespace rockhopper::dag
