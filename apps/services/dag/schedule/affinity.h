// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "apps/services/dag/schedule/board.h"
#include "apps/services/dag/schedule/entry_label.h"
#include "apps/services/dag/schedule/node_record.h"

namespace rockhopper::dag {

/// Which nodes a worker may run, by its labels and its number.
class Affinity {
 public:
  Affinity(std::vector<std::uint32_t> labels, std::uint32_t worker)
      : labels_(std::move(labels)), worker_(worker) {}

  /// The worker has this label of an edge.
  [[nodiscard]] bool has(std::uint32_t label) const {
    return std::find(labels_.begin(), labels_.end(), label) != labels_.end();
  }
  /// What an entry's label lets hope; the node's record decides. `workers` are those on the board:
  /// the node of one that is gone may be run by anybody.
  [[nodiscard]] bool may_fit(std::uint32_t label, std::span<const WorkerSlot> workers) const {
    constexpr std::uint32_t kMask = kWorkerLabel - 1;
    if (label == 0) return true;
    if ((label & kWorkerLabel) == 0) {
      return std::any_of(labels_.begin(), labels_.end(),
                         [label](std::uint32_t own) { return (own & kMask) == label; });
    }
    const std::uint32_t worker = label & kMask;
    if (worker == 0 || worker == (worker_ & kMask)) return true;
    return std::none_of(workers.begin(), workers.end(), [worker](const WorkerSlot& slot) {
      return (slot.client & kMask) == worker;
    });
  }
  /// Returns the label for the entry of `node`, which the end of `finished` at this worker has made
  /// ready. kWorkerLabel alone stands for some worker, which a look at the record tells.
  [[nodiscard]] std::uint32_t entry_label_of(const NodeView& node, NodeIndex finished) const {
    std::uint32_t label = kWorkerLabel;
    for (const NodeLink& link : node.predecessors) {
      if ((link.constraints.set & kAffinity) == 0) continue;
      if (link.constraints.affinity == kSameWorker) {
        return link.node == finished ? entry_worker(worker_) : kWorkerLabel;
      }
      const std::uint32_t low = link.constraints.affinity & (kWorkerLabel - 1);
      if (low != 0) label = low;
    }
    return label;
  }

 private:
  std::vector<std::uint32_t> labels_;
  std::uint32_t worker_;  ///< its client's number at the home
};

}  // namespace rockhopper::dag
