// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "apps/services/dag/record.h"
#include "apps/services/dag/schedule/node_record.h"
#include "apps/services/dag/schedule/node_state.h"

namespace rockhopper::dag {

/// The control words of a run's nodes where they are, in memory that clients can write: anything
/// may be in them. Where they are is known from the records' places alone. Belongs to the engine's
/// thread, which executes what clients do to them.
class NodeWords {
 public:
  /// `memory` is the store's; the records have been written. Both must outlive it.
  NodeWords(std::span<std::byte> memory, const NodeRecords& records)
      : memory_(memory), records_(&records) {}

  [[nodiscard]] NodeState state(NodeIndex node) const {
    return NodeState::from(word(node, kStateWord).load());
  }
  void set_state(NodeIndex node, const NodeState& state) const {
    word(node, kStateWord).store(state.bits());
  }
  [[nodiscard]] std::uint64_t dependencies(NodeIndex node) const {
    return word(node, kDependenciesWord).load();
  }
  void set_dependencies(NodeIndex node, std::uint64_t count) const {
    word(node, kDependenciesWord).store(count);
  }

 private:
  [[nodiscard]] std::atomic_ref<std::uint64_t> word(NodeIndex node, unsigned which) const {
    std::byte* at = memory_.data() + word_address(records_->address(node), which);
    return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at));
  }

  std::span<std::byte> memory_;
  const NodeRecords* records_;
};

/// Behind an attempt that came to nothing: anybody may begin the next one.
[[nodiscard]] constexpr NodeState next_attempt(const NodeState& state) {
  return {.phase = NodePhase::pending, .attempt = (state.attempt + 1) & 0xffffff};
}

}  // namespace rockhopper::dag
