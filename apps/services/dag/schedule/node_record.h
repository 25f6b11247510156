// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/services/dag/graph/edge.h"
#include "apps/services/dag/graph/graph.h"
#include "apps/services/dag/graph/task.h"
#include "apps/services/dag/store.h"

/// A node as a record of the store (DG-1 to DG-4): fixed, its key "RUN/NODE", its control words as
/// in node_state.h, its data everything that a worker needs: the tasks in their order, pointers to
/// the predecessors' records, pointers to the successors' records with the constraints.
///
/// The data, little endian:
///
///     head          40  node 4, tasks 4, predecessors 4, successors 4, priority 8, work in ns 8,
///                       directed 1, zero 7
///     tasks         16  kind 4, function 4, version 4, bytes of the arguments 4; arguments; zeros
///                       to 8
///     predecessors  48  as a link, bytes of the key (without the run's name) in `extra`; key;
///                       zeros to 8
///     successors    48  as a link, whether it is directed in `extra`
///     a link        48  address 8, incarnation 8, length 4, node 4, constraints 4, label 4,
///                       not before in ns 8, extra 4, zero 4
namespace rockhopper::dag {

/// Another node's record.
struct NodeLink {
  std::uint64_t address = 0;  ///< a multiple of kRecordAlignment, below kRecordAddressEnd
  std::uint64_t incarnation = 0;
  std::uint32_t length = 0;  ///< bytes to be READ, a multiple of kRecordAlignment
  NodeIndex node = 0;
  EdgeConstraints constraints{};
  bool directed = false;  ///< of a successor: has edges with an affinity, this one or others
  std::string_view key;   ///< of a predecessor
};
/// What a deque's entry has room for (deque.h).
inline constexpr std::uint64_t kRecordAddressEnd = std::uint64_t{1} << 46;
inline constexpr std::uint64_t kRecordLengthEnd = std::uint64_t{1} << 30;

/// What a node's record holds. Views of its bytes.
struct NodeView {
  NodeIndex node = 0;
  std::uint64_t priority = 0;  ///< urgencies(): larger is more urgent (DG-41)
  std::uint64_t work_ns = 0;
  bool directed = false;  ///< some edge to it has an affinity
  std::vector<Task> tasks;
  std::vector<NodeLink> predecessors;  ///< in the order of their keys
  std::vector<NodeLink> successors;
};

/// Returns false if the data is no node's. Nothing in it is trusted: lengths and counts add up,
/// constraints are good. Keeps the vectors' memory.
[[nodiscard]] bool parse_node(std::span<const std::byte> data, NodeView& view);

/// The records of a whole graph: where each of them is, and what is in it.
class NodeRecords {
 public:
  /// Places of all records from `address` on, behind each other in order of index, each at a
  /// multiple of kRecordAlignment; the one of node i has incarnation `first_incarnation` + i. The
  /// graph must outlive it. `capacity_max` is the most data that a record of the store may have.
  /// Fails if a key or a record is too long, or all of them together are. Nodes of which nobody
  /// knows how long they take count 1 ns each, so that longer chains come first.
  [[nodiscard]] static Expected<NodeRecords> create(const Graph& graph, std::string_view run,
                                                    std::uint32_t capacity_max = kCapacityMax);
  /// All of them together. At least Store::kArenaStep for each.
  [[nodiscard]] std::uint64_t bytes() const { return offsets_.back(); }
  void set_place(std::uint64_t address, std::uint64_t first_incarnation);

  [[nodiscard]] std::string key(NodeIndex node) const;
  [[nodiscard]] MapPlace place(NodeIndex node) const;
  [[nodiscard]] std::uint64_t address(NodeIndex node) const { return address_ + offsets_[node]; }
  [[nodiscard]] std::uint64_t priority(NodeIndex node) const { return priority_[node]; }
  /// Some edge to it has an affinity.
  [[nodiscard]] bool is_directed(NodeIndex node) const { return directed_[node]; }
  /// Writes the record, pending, with as many dependencies as it has predecessors. `out` is as long
  /// as its place.
  void compose(NodeIndex node, std::span<std::byte> out) const;

 private:
  NodeRecords() = default;
  [[nodiscard]] std::uint64_t data_bytes(NodeIndex node) const;
  [[nodiscard]] std::size_t key_bytes(NodeIndex node) const;

  const Graph* graph_ = nullptr;
  std::string run_;
  std::vector<std::uint64_t> offsets_;   ///< by node, and where the last one ends
  std::vector<std::uint64_t> priority_;  ///< by node
  std::vector<bool> directed_;           ///< by node
  std::uint64_t address_ = 0;
  std::uint64_t first_incarnation_ = 0;
};

/// The longest name of a run: letters, digits, and any of . _ -
inline constexpr std::size_t kRunNameMax = 47;
[[nodiscard]] bool is_run_name(std::string_view name);
/// A node's key in its graph; with the run's name and a '/' it is a record's key.
inline constexpr std::size_t kNodeKeyMax = kKeyMax - kRunNameMax - 1;

}  // namespace rockhopper::dag
