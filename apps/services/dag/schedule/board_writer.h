// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "apps/services/dag/schedule/board.h"

namespace rockhopper::dag {

/// The server's end of a board: writes slots, each with a sequence number of its own, and the
/// generation. Believes nothing that is in the memory. Belongs to the engine's thread.
class BoardWriter {
 public:
  /// `memory` has layout.bytes(), aligned to 64; it is cleared.
  BoardWriter(std::span<std::byte> memory, const BoardLayout& layout);

  [[nodiscard]] const BoardLayout& layout() const { return layout_; }
  /// For the Deques of the pool.
  [[nodiscard]] std::span<std::byte> pool() const;
  /// Shows a run as it is now. Its `sequence` and `completed` are not looked at.
  void show(std::uint32_t slot, RunSlot run);
  /// Shows a worker; its `sequence` is not looked at.
  void show(std::uint32_t slot, WorkerSlot worker);

  /// What workers have counted; anything at all, when one of them has written it.
  [[nodiscard]] std::uint64_t completed(std::uint32_t slot) const;
  void set_completed(std::uint32_t slot, std::uint64_t nodes);

 private:
  void bump_generation();
  void write(std::uint64_t offset, std::span<const std::byte> slot, std::uint64_t& sequence);

  std::span<std::byte> memory_;
  BoardLayout layout_;
  std::uint64_t generation_ = 0;
  std::vector<std::uint64_t> run_sequences_;
  std::vector<std::uint64_t> worker_sequences_;
};

/// Puts a text into a slot, cut off where there is no room, with a zero behind it at least. What
/// cannot be printed becomes '?'.
void put_text(std::string_view text, std::span<char> out);

}  // namespace rockhopper::dag
