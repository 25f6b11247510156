// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/services/dag/schedule/board.h"
#include "apps/services/dag/schedule/home_link.h"
#include "apps/services/dag/schedule/local_memory.h"
#include "apps/services/dag/schedule/worker_counters.h"

namespace rockhopper::dag {

/// What a worker knows of the home's board: READs its head and the ends of the pool together, and
/// all slots when the head says that one has changed.
class BoardView {
 public:
  struct Run {
    std::uint64_t id = 0;
    RunPhase phase = RunPhase::none;
    unsigned priority = 0;
    std::uint32_t nodes = 0;
    std::uint64_t completed = 0;
    std::uint64_t first_incarnation = 0;
    std::uint64_t records_address = 0;
    std::uint64_t records_bytes = 0;
    std::string name;
  };
  /// Its requests have `wr_id` and something in the lower 32 bits. All must outlive it.
  BoardView(HomeLink& link, const Grant& grant, std::uint32_t path_mtu, WorkerCounters& counters,
            std::uint64_t wr_id, LocalMemory& memory);

  /// Begins a look. `renewals` is Client::renewals(). With `runs`, the slots of the runs too.
  /// Returns false if one is under way, or if there is no room.
  [[nodiscard]] bool look(std::uint64_t renewals, bool runs);
  [[nodiscard]] bool looking() const { return outstanding_ > 0; }

  enum class Seen : std::uint8_t {
    nothing,  ///< there is more to come
    same,     ///< no slot has changed
    changed,  ///< runs() and workers() are new
    bad,      ///< it is no board
  };
  [[nodiscard]] Seen on_completion(std::uint64_t wr_id, std::uint64_t renewals);

  /// By slot.
  [[nodiscard]] const std::vector<Run>& runs() const { return runs_; }
  [[nodiscard]] const std::vector<WorkerSlot>& workers() const { return workers_; }
  [[nodiscard]] const BoardLayout& layout() const { return layout_; }
  /// The pool's ends at the last look.
  [[nodiscard]] const DequeHead& pool() const { return pool_; }
  /// What runs() says was so when Client::renewals() was this.
  [[nodiscard]] std::optional<std::uint64_t> proved() const { return proved_; }
  /// Is on the board.
  [[nodiscard]] bool has_worker(std::uint32_t client) const;

 private:
  static constexpr std::uint32_t kHeadBytes = sizeof(BoardHead) + sizeof(DequeHead);
  [[nodiscard]] bool take_layout(const BoardHead& head);
  void read(std::uint64_t address, std::uint32_t length);
  void read_slots(std::uint64_t from, std::uint64_t to, std::uint32_t slot_bytes);
  [[nodiscard]] bool take_slots();

  HomeLink& link_;
  Grant grant_;
  std::uint32_t path_mtu_;
  WorkerCounters& counters_;
  std::uint64_t wr_id_;
  LocalMemory& memory_;
  BoardLayout layout_;
  bool known_ = false;  ///< its layout
  unsigned outstanding_ = 0;
  bool reads_all_ = false;
  bool head_taken_ = false;
  std::uint64_t began_ = 0;       ///< renewals when the READs were posted
  std::uint64_t generation_ = 0;  ///< of what was READ
  std::uint64_t seen_ = 0;        ///< of the head
  std::optional<std::uint64_t> proved_;
  DequeHead pool_{};
  std::vector<Run> runs_;
  std::vector<WorkerSlot> workers_;
};

}  // namespace rockhopper::dag
