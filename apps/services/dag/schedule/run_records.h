// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/services/dag/graph/graph.h"
#include "apps/services/dag/schedule/node_record.h"
#include "apps/services/dag/schedule/node_words.h"
#include "apps/services/dag/store.h"

namespace rockhopper::dag {

/// The records of a run's nodes: how they come into the store, the first one first, and out of it
/// again, the last one first. Records are in the store only while there is memory for all of them.
class RunRecords {
 public:
  /// Fails if the nodes make no good records. The store must outlive it.
  [[nodiscard]] static Expected<std::unique_ptr<RunRecords>> create(Store& store,
                                                                    std::string_view run,
                                                                    Graph graph);
  RunRecords(const RunRecords&) = delete;
  RunRecords& operator=(const RunRecords&) = delete;
  ~RunRecords() = default;

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const NodeRecords& nodes() const { return *nodes_; }
  /// Good for the nodes whose records are in the store.
  [[nodiscard]] const NodeWords& words() const { return *words_; }
  /// Returns the memory for all of them, if there is some.
  [[nodiscard]] const std::optional<MapPlace>& memory() const { return memory_; }
  [[nodiscard]] NodeIndex count() const { return count_; }

  /// Without effect if it fails.
  [[nodiscard]] Expected<void> allocate();
  /// Makes the next one. Requires memory, and that there is a next one.
  [[nodiscard]] Expected<void> make_next();
  /// Requires that there is one in the store.
  void erase_last(std::uint64_t now_ns);
  /// Releases the memory. Requires that no record is in the store.
  void release(std::uint64_t now_ns);

 private:
  RunRecords(Store& store, Graph graph) : store_(store), graph_(std::move(graph)) {}
  void compose(NodeIndex node);

  Store& store_;
  Graph graph_;
  std::optional<NodeRecords> nodes_;  ///< refers to graph_
  std::optional<NodeWords> words_;    ///< refers to nodes_
  std::optional<MapPlace> memory_;
  NodeIndex count_ = 0;  ///< in the store; 0 without memory
};

}  // namespace rockhopper::dag
