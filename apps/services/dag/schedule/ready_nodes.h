// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "apps/services/dag/schedule/deque.h"
#include "apps/services/dag/schedule/worker_counters.h"

namespace rockhopper::dag {

/// The nodes that are ready at a worker: in its deques, where others find them too, and while there
/// is no room, in memory of its own.
///
/// An entry that is not for this worker is set aside, at the top of its deque, where others look
/// first. When all that a deque has have been set aside, there is nothing for the owner in it until
/// something is pushed, or reconsider() is called.
class ReadyNodes {
 public:
  struct Ready {
    unsigned priority = 0;  ///< class
    DequeEntry entry;
  };

  /// `memory` has layout.bytes(), aligned to 64; it is cleared. All must outlive it.
  ReadyNodes(std::span<std::byte> memory, const DequeLayout& layout, WorkerCounters& counters)
      : deques_(memory, layout), counters_(counters) {}

  /// There is nothing in it for its owner. Looks at what others have taken, hence not const.
  [[nodiscard]] bool is_exhausted();
  /// Takes the youngest entry of the most urgent class.
  [[nodiscard]] std::optional<Ready> pop();
  void push(const Ready& ready);
  void set_aside(const Ready& ready);
  /// What was set aside may be for this worker now.
  void reconsider() { set_aside_.fill(0); }
  /// Moves what had no room into the deques, as far as it goes.
  void refill();
  /// Forgets the entries of a run that has ended, by its slot on the board.
  void remove_run(std::uint8_t run);

 private:
  [[nodiscard]] bool has_any(unsigned priority);
  [[nodiscard]] bool push_into_deque(const Ready& ready);

  Deques deques_;
  WorkerCounters& counters_;
  std::vector<Ready> overflow_;
  std::array<std::uint64_t, kPriorityClasses> set_aside_{};  ///< in a row, by class
};

}  // namespace rockhopper::dag
