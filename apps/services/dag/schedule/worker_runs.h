// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "apps/services/dag/schedule/board_view.h"
#include "apps/services/dag/schedule/deque.h"
#include "apps/services/dag/schedule/node_record.h"

namespace rockhopper::dag {

/// The runs of a home as a worker takes part in them, by their slots on the board: what the board
/// showed last, and how many nodes the worker has released that the board does not know of.
class WorkerRuns {
 public:
  /// The store of the home has so many bytes.
  explicit WorkerRuns(std::uint64_t records_bytes) : records_bytes_(records_bytes) {}

  [[nodiscard]] std::size_t size() const { return runs_.size(); }
  [[nodiscard]] const BoardView::Run& at(std::uint8_t slot) const { return runs_[slot].seen; }
  /// Returns the run that is going on and that `entry` may be of; null if there is none.
  [[nodiscard]] const BoardView::Run* find(const DequeEntry& entry) const;
  /// The run of `entry` has ended, or there can be none, and not only has the board to be READ.
  [[nodiscard]] bool has_ended(const DequeEntry& entry) const;
  /// The run in this slot is the one with that id, and going on.
  [[nodiscard]] bool is_going_on(std::uint8_t slot, std::uint64_t id) const;
  /// The link leads to where a node of the run in this slot may be.
  [[nodiscard]] bool may_lead_to(std::uint8_t slot, const NodeLink& link) const;

  /// A slot in which something has ended.
  struct Change {
    std::uint8_t slot = 0;
    bool is_another = false;  ///< it has another run now
    bool has_ended = false;   ///< what is known of its run's nodes is of no use any more
  };
  /// Takes over what the board shows.
  [[nodiscard]] std::vector<Change> follow(const std::vector<BoardView::Run>& seen);

  /// A node of the run in this slot has been released.
  void on_released(std::uint8_t slot) { ++runs_[slot].released; }
  /// Returns how many released nodes are to be added to the board's count; they are being added
  /// then, until on_added(). Returns 0 if there are none, or some are being added.
  [[nodiscard]] std::uint64_t take_released(std::uint8_t slot);
  void on_added(std::uint8_t slot) { runs_[slot].is_adding = false; }
  [[nodiscard]] bool has_released() const;

 private:
  struct Run {
    BoardView::Run seen;
    std::uint64_t released = 0;  ///< and not added
    bool is_adding = false;
  };

  std::uint64_t records_bytes_;
  std::vector<Run> runs_;  ///< by slot, as many as the board has
};

}  // namespace rockhopper::dag
