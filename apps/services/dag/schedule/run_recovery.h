// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "apps/services/dag/graph/graph.h"
#include "apps/services/dag/schedule/home_counters.h"
#include "apps/services/dag/schedule/node_words.h"
#include "apps/services/dag/schedule/worker_table.h"

namespace rockhopper::dag {

/// Puts right what workers that are gone have left of a run (DG-36), in turns. First a look at each
/// node; its state, and whether its worker is gone, decide:
///
/// - running: pending again, with the next attempt;
/// - done, and not released: an orphan. Some of its successors may have been told and others not;
/// - pending without dependencies: it may have been in a lost deque only, so it is made ready.
///
/// Then the dependencies of each orphan's successors are reckoned anew: as many as there are
/// predecessors that are neither released nor orphans. A predecessor that a living worker has done
/// and not released may have told this successor or not, so that it has to be waited for; and so
/// has an orphan whose edge has a time to wait, from when it was found on, as nobody knows since
/// when. Nothing can change between reckoning and writing, as the thread that reckons executes all
/// atomics. An orphan is released once all its successors have been reckoned.
class RunRecovery {
 public:
  /// All must outlive it.
  RunRecovery(const Graph& graph, const NodeWords& words, const WorkerTable& workers,
              HomeCounters& counters);

  /// What a turn has come to.
  struct Found {
    std::vector<NodeIndex> ready;  ///< to be put into the pool, some of them once more perhaps
    std::uint64_t put_back = 0;    ///< nodes
    std::vector<NodeIndex> lost;   ///< those of them that were lost with their worker
    std::uint64_t released = 0;    ///< nodes
  };
  /// A worker has gone, or a state was found that nobody may have written. What is ready will be
  /// found again. `lost`: the worker's number, if it did not leave by itself.
  void begin(std::optional<std::uint32_t> lost);
  [[nodiscard]] bool is_looking() const { return next_node_ < graph_.size(); }
  [[nodiscard]] bool is_orphan(NodeIndex node) const { return orphans_.contains(node); }
  /// One turn, that looks at about `slice` nodes and adds to `found`. True if there was something
  /// to do.
  bool progress(std::uint64_t now_ns, std::uint32_t slice, Found& found);
  /// When progress() has something to do.
  [[nodiscard]] std::uint64_t next_deadline_ns() const { return is_looking() ? 0 : next_look_ns_; }

 private:
  struct Orphan {
    std::uint32_t first_edge = 0;  ///< Graph::edge()
    std::uint32_t left = 0;        ///< edges whose successor has not been reckoned
    std::vector<bool> told;        ///< by edge
  };

  void look_at(NodeIndex node, std::uint64_t now_ns, Found& found);
  void put_back(NodeIndex node, const NodeState& state, std::uint64_t now_ns, Found& found);
  void add_orphan(NodeIndex node, std::uint64_t now_ns, Found& found);
  void add_unreckoned(NodeIndex node, std::uint64_t when_ns);
  bool reckon_all(std::uint64_t now_ns, std::uint32_t slice, Found& found);
  /// Returns false if that is not possible yet.
  [[nodiscard]] bool reckon(NodeIndex node, Found& found);
  void tell_orphans_of(NodeIndex successor, Found& found);
  void release(NodeIndex orphan, Found& found);

  const Graph& graph_;
  NodeWords words_;
  const WorkerTable& workers_;
  HomeCounters& counters_;
  NodeIndex next_node_;                   ///< to be looked at; none: the graph's size
  std::set<std::uint32_t> lost_workers_;  ///< until the look at each node is over
  std::map<NodeIndex, Orphan> orphans_;
  /// Nodes whose dependencies have to be reckoned, and when they can be at the earliest.
  std::map<NodeIndex, std::uint64_t> unreckoned_;
  NodeIndex next_unreckoned_ = 0;  ///< where the pass over them goes on
  std::uint64_t pass_next_look_ns_ = UINT64_MAX;
  std::uint64_t next_look_ns_ = UINT64_MAX;
};

}  // namespace rockhopper::dag
