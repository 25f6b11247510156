// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "apps/services/dag/graph/function_registry.h"
#include "apps/services/dag/graph/graph.h"
#include "apps/services/dag/schedule/home.h"

namespace rockhopper::apps::dag_node {

/// Examines graphs on a thread of its own, so that packets move on meanwhile.
class GraphParser {
 public:
  struct Parsed {
    dag::RunId run{};
    Expected<dag::Graph> graph;
  };

  /// `registry` must outlive it.
  GraphParser(const dag::FunctionRegistry& registry, const dag::GraphLimits& limits);
  GraphParser(const GraphParser&) = delete;
  GraphParser& operator=(const GraphParser&) = delete;
  /// What is being examined is finished first.
  ~GraphParser();

  void submit(dag::RunId run, std::vector<std::byte> image);
  /// One that is done, if any.
  [[nodiscard]] std::optional<Parsed> take();

 private:
  struct Job {
    dag::RunId run{};
    std::vector<std::byte> image;
  };
  void work();

  const dag::FunctionRegistry& registry_;
  dag::GraphLimits limits_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  std::deque<Parsed> done_;
  bool stop_ = false;
  std::thread thread_;  ///< the last one: it uses all others
};

}  // namespace rockhopper::apps::dag_node
