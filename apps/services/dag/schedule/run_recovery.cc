// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/schedule/run_recovery.h"

#include <algorithm>
#include <iterator>

namespace rockhopper::dag {
namespace {

/// Between two looks at a node that has to wait for a living worker.
constexpr std::uint64_t kLookAgainNs = 100'000;

}  // namespace

RunRecovery::RunRecovery(const Graph& graph, const NodeWords& words, const WorkerTable& workers,
                         HomeCounters& counters)
    : graph_(graph),
      words_(words),
      workers_(workers),
      counters_(counters),
      next_node_(graph.size()) {}

void RunRecovery::begin(std::optional<std::uint32_t> lost) {
  counters_.scans.add();
  if (lost) lost_workers_.insert(*lost);
  next_node_ = 0;
}

bool RunRecovery::progress(std::uint64_t now_ns, std::uint32_t slice, Found& found) {
  const bool looked = is_looking();
  const std::uint64_t end =
      std::min<std::uint64_t>(std::uint64_t{next_node_} + slice, graph_.size());
  while (next_node_ < end) {
    look_at(next_node_++, now_ns, found);
  }
  // Before all orphans are known there would only be more to wait for.
  if (is_looking()) return true;
  lost_workers_.clear();
  return reckon_all(now_ns, slice, found) || looked;
}

void RunRecovery::look_at(NodeIndex node, std::uint64_t now_ns, Found& found) {
  const NodeState state = words_.state(node);
  switch (state.phase) {
    case NodePhase::pending:
      if (state.owner != 0) break;
      if (words_.dependencies(node) == 0) found.ready.push_back(node);
      return;
    case NodePhase::running:
      if (workers_.is_here(state.owner)) return;
      put_back(node, state, now_ns, found);
      return;
    case NodePhase::done:
      if (!workers_.is_here(state.owner)) add_orphan(node, now_ns, found);
      return;
    case NodePhase::released:
      return;
    case NodePhase::canceled:
      break;
  }
  counters_.bad_states.add();
  put_back(node, state, now_ns, found);
}

void RunRecovery::put_back(NodeIndex node, const NodeState& state, std::uint64_t now_ns,
                           Found& found) {
  words_.set_state(node, next_attempt(state));
  ++found.put_back;
  if (lost_workers_.contains(state.owner)) found.lost.push_back(node);
  counters_.nodes_put_back.add();
  if (words_.dependencies(node) == 0) {
    found.ready.push_back(node);
  } else {
    counters_.bad_dependencies.add();
    add_unreckoned(node, now_ns);
  }
}

void RunRecovery::add_orphan(NodeIndex node, std::uint64_t now_ns, Found& found) {
  const auto edges = graph_.edges_of(node);
  const auto [orphan, added] = orphans_.try_emplace(node);
  if (!added) return;
  orphan->second.first_edge =
      static_cast<std::uint32_t>(std::distance(graph_.parts().edges.data(), edges.data()));
  orphan->second.left = static_cast<std::uint32_t>(edges.size());
  orphan->second.told.resize(edges.size());
  for (const Edge& edge : edges) {
    add_unreckoned(edge.to, now_ns + edge.constraints.not_before_ns);
  }
  if (edges.empty()) release(node, found);
}

void RunRecovery::add_unreckoned(NodeIndex node, std::uint64_t when_ns) {
  const auto [entry, added] = unreckoned_.try_emplace(node, when_ns);
  entry->second = std::max(entry->second, when_ns);
  next_look_ns_ = std::min(next_look_ns_, when_ns);
  pass_next_look_ns_ = std::min(pass_next_look_ns_, when_ns);
}

/// Passes over all of them, each pass in several turns if it has to be.
bool RunRecovery::reckon_all(std::uint64_t now_ns, std::uint32_t slice, Found& found) {
  if (now_ns < next_look_ns_) return false;
  std::uint64_t looks = 0;
  auto entry = unreckoned_.lower_bound(next_unreckoned_);
  while (entry != unreckoned_.end() && looks < slice) {
    const NodeIndex node = entry->first;
    looks += 1;
    if (now_ns >= entry->second) {
      looks += graph_.predecessors(node).size();
      if (reckon(node, found)) {
        entry = unreckoned_.erase(entry);
        continue;
      }
      counters_.reckonings_delayed.add();
      entry->second = now_ns + kLookAgainNs;
    }
    pass_next_look_ns_ = std::min(pass_next_look_ns_, entry->second);
    ++entry;
  }
  if (entry != unreckoned_.end()) {
    next_unreckoned_ = entry->first;
    return true;
  }
  next_unreckoned_ = 0;
  next_look_ns_ = pass_next_look_ns_;
  pass_next_look_ns_ = UINT64_MAX;
  return true;
}

bool RunRecovery::reckon(NodeIndex node, Found& found) {
  if (words_.state(node).phase == NodePhase::pending) {
    std::uint64_t dependencies = 0;
    for (const Predecessor& predecessor : graph_.predecessors(node)) {
      const NodePhase phase = words_.state(predecessor.from).phase;
      if (phase == NodePhase::released) continue;
      if (phase != NodePhase::done) {
        ++dependencies;
      } else if (!is_orphan(predecessor.from)) {
        return false;  // of a living worker, or of one that is lost too and will be an orphan
      }
    }
    words_.set_dependencies(node, dependencies);
    counters_.dependencies_reckoned.add();
    if (dependencies == 0) found.ready.push_back(node);
  }
  tell_orphans_of(node, found);
  return true;
}

void RunRecovery::tell_orphans_of(NodeIndex successor, Found& found) {
  for (const Predecessor& predecessor : graph_.predecessors(successor)) {
    const auto entry = orphans_.find(predecessor.from);
    if (entry == orphans_.end()) continue;
    Orphan& orphan = entry->second;
    const std::uint32_t edge = predecessor.edge - orphan.first_edge;
    if (orphan.told[edge]) continue;
    orphan.told[edge] = true;
    if (--orphan.left == 0) release(predecessor.from, found);
  }
}

void RunRecovery::release(NodeIndex orphan, Found& found) {
  NodeState state = words_.state(orphan);
  state.phase = NodePhase::released;
  words_.set_state(orphan, state);
  orphans_.erase(orphan);
  ++found.released;
  counters_.nodes_released.add();
}

}  // namespace rockhopper::dag
