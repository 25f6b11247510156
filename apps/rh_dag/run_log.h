// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/common/output_file.h"
#include "stack/error.h"

namespace rockhopper::apps {
class Fields;
}  // namespace rockhopper::apps

/// What workers write down of a run: one JSON object a line, so that a worker that is killed leaves
/// all lines but its last. Three kinds of lines (docs/programs/rh-dag.md):
///
///   {"log": "rh-dag", "version": 1, "graph": NAME, "nodes": N, "work_ns": N, "critical_path_ns":
///   N}
///   {"node": KEY, "worker": NAME, "start_ns": N, "end_ns": N, "stolen": B, "attempts": N,
///    "committed": B}
///   {"steals": {"worker": NAME, "attempts": N, "successes": N}}
///
/// The first line of each log is of the first kind. Times are of a clock that all workers share.
namespace rockhopper::apps::dag_node {

/// Of the graph that is run, by its estimates.
struct RunHeader {
  std::string graph;
  std::uint64_t nodes = 0;
  std::uint64_t work_ns = 0;
  std::uint64_t critical_path_ns = 0;
  void describe(Fields& fields);
  friend bool operator==(const RunHeader&, const RunHeader&) = default;
};

/// One node, run once by one worker.
struct NodeRun {
  std::string node;
  std::string worker;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  bool stolen = false;         ///< the worker took it from another one
  std::uint64_t attempts = 1;  ///< how often it was begun, by anybody, this time included
  bool committed = true;       ///< the result counts: not if the worker had lost the node meanwhile
  void describe(Fields& fields);
};

struct Steals {
  std::string worker;
  std::uint64_t attempts = 0;
  std::uint64_t successes = 0;
  void describe(Fields& fields);
};

[[nodiscard]] std::string to_line(const RunHeader& header);
[[nodiscard]] std::string to_line(const NodeRun& run);
[[nodiscard]] std::string to_line(const Steals& steals);

/// The logs of all workers of one run.
struct RunLog {
  RunHeader header;
  std::vector<NodeRun> runs;
  std::vector<Steals> steals;
  std::uint64_t passed_ns = 0;   ///< in all runs together; up to dag::kTotalTimeMaxNs
  std::uint64_t torn_lines = 0;  ///< at the ends of logs of killed workers
};

/// Adds the lines of one log. Fails with the number of the line that is wrong, and if the log is of
/// another graph than those before it.
[[nodiscard]] Expected<void> add_log(RunLog& log, bool first, std::string_view text);
/// Reads all files; one line that begins with the file's path says what is wrong.
[[nodiscard]] Expected<RunLog> read_logs(std::span<const std::string> paths);

/// Writes a log line by line.
class RunLogWriter {
 public:
  /// Makes the file anew; "-" is standard output.
  [[nodiscard]] static Expected<RunLogWriter> create(const std::string& path,
                                                     const RunHeader& header);
  void write(const std::string& line);
  /// Fails if any line could not be written.
  [[nodiscard]] Expected<void> close();

 private:
  RunLogWriter(std::string path, OutputFile file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  OutputFile file_;
};

}  // namespace rockhopper::apps::dag_node
