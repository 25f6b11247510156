// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/sim/atomic_history.h"

#include <map>

#include <fmt/format.h>

namespace rockhopper::sim {

std::optional<std::string> AtomicHistory::contradiction(std::uint64_t final) const {
  // A word serves either kind only: mixed histories are hard to decide.
  return swaps_.empty() ? check_increments(final) : check_swaps(final);
}

std::optional<std::string> AtomicHistory::check_increments(std::uint64_t final) const {
  std::vector<bool> seen(increments_.size(), false);
  std::map<std::uint32_t, std::uint64_t> last;  // by actor
  for (const Increment& increment : increments_) {
    const std::uint64_t position = increment.before - initial_;
    if (position >= seen.size()) {
      return fmt::format("increment returned {} of {}", position, seen.size());
    }
    if (seen[position]) return fmt::format("two increments returned {}", position);
    seen[position] = true;
    const auto [entry, first] = last.try_emplace(increment.actor, position);
    if (!first && entry->second > position) {
      return fmt::format("increments of actor {} are out of order", increment.actor);
    }
    entry->second = position;
  }
  if (final - initial_ != increments_.size()) {
    return fmt::format("{} increments left {}", increments_.size(), final - initial_);
  }
  return std::nullopt;
}

std::optional<std::string> AtomicHistory::check_swaps(std::uint64_t final) const {
  std::map<std::uint64_t, std::uint64_t> successor;
  for (const Swap& swap : swaps_) {
    if (swap.before == swap.compare && !successor.try_emplace(swap.compare, swap.swap).second) {
      return fmt::format("two swaps of {:#x} succeeded", swap.compare);
    }
  }
  std::map<std::uint64_t, std::size_t> position{{initial_, 0}};
  std::uint64_t value = initial_;
  for (auto next = successor.find(value); next != successor.end(); next = successor.find(value)) {
    value = next->second;
    position[value] = position.size();
  }
  if (position.size() != successor.size() + 1) {
    return fmt::format("{} swaps succeeded, a chain of {} explains them", successor.size(),
                       position.size() - 1);
  }
  if (value != final) {
    return fmt::format("the word holds {:#x}, the swaps left {:#x}", final, value);
  }
  std::map<std::uint32_t, std::size_t> last;  // by actor: the earliest place in the chain
  for (const Swap& swap : swaps_) {
    const auto at = position.find(swap.before);
    if (at == position.end()) {
      return fmt::format("a swap returned {:#x}, which nobody wrote", swap.before);
    }
    std::size_t& earliest = last[swap.actor];
    if (at->second < earliest) return fmt::format("swaps of actor {} are out of order", swap.actor);
    earliest = swap.before == swap.compare ? at->second + 1 : at->second;
  }
  return std::nullopt;
}

}  // namespace rockhopper::sim
