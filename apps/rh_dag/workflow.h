// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rockhopper::apps::dag_node {

/// A recorded execution of a workflow, as its file has it (wfformat.h): checked, names resolved.
struct Workflow {
  struct File {
    std::string id;
    std::uint64_t bytes = 0;
    std::optional<std::uint32_t> writer;  ///< a task; without one the workflow only reads it
  };
  /// What a task waits for.
  struct Dependency {
    std::uint32_t task = 0;
    bool data = false;  ///< it reads a file of that task
  };
  struct Task {
    std::string id;
    std::string name;                      ///< of its kind, for people
    std::vector<Dependency> dependencies;  ///< by task, each once
    std::vector<std::uint32_t> inputs;     ///< files
    std::vector<std::uint32_t> outputs;
    std::optional<std::uint64_t> runtime_ns;  ///< as recorded
    std::int32_t priority = 0;
    std::vector<std::string> command;  ///< program and arguments; empty: not recorded
  };

  std::string name;
  std::vector<Task> tasks;
  std::vector<File> files;
  std::optional<std::uint64_t> makespan_ns;  ///< as recorded
  /// Dependencies that only the files tell of, not the tasks' parents.
  std::uint64_t dependencies_by_files = 0;
  /// Files, relatives, inputs and outputs that the file has listed once more, which changes
  /// nothing.
  std::uint64_t repetitions = 0;
};

}  // namespace rockhopper::apps::dag_node
