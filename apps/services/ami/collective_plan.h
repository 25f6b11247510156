// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/services/ami/collective_message.h"

namespace rockhopper::ami {

/// What is done with a vector that has arrived.
enum class Take : std::uint8_t {
  nothing,
  replace,  ///< it is the result
  lower,    ///< reduced with it as the lower operand
  upper,    ///< as the upper one
};

/// A message to a rank, and then one from a rank; either may be missing.
struct Step {
  static constexpr Rank kNobody = 0xffff;
  Rank to = kNobody;
  Rank from = kNobody;
  std::uint8_t round = 0;  ///< the same at both ends
  Take take = Take::nothing;
};

/// What a rank does for a collective: the exchanges one after another, then the services in any
/// order, each to one rank when it has said that it is ready (`from`), or at once.
class Plan {
 public:
  /// The steps of an all-reduce between 65,535 ranks, the most there are: 15 rounds, one before,
  /// one after.
  static constexpr std::size_t kMaxSteps = 18;

  Plan() = default;
  [[nodiscard]] static Plan make(const CollectiveCall& call, Rank rank, Rank ranks);

  [[nodiscard]] std::span<const Step> steps() const& { return {steps_.data(), count_}; }
  /// They would not outlive it.
  [[nodiscard]] std::span<const Step> steps() && = delete;
  [[nodiscard]] std::size_t exchanges() const { return exchanges_; }
  /// The step that awaits this round of that rank; null: none does.
  [[nodiscard]] const Step* awaiting(std::uint8_t round, Rank from) const;

 private:
  void exchange(const Step& step);
  void serve(const Step& step);
  void make_barrier(Rank rank, Rank ranks);
  void make_broadcast(Rank rank, Rank ranks, Rank root, bool when_ready);
  void make_all_reduce(Rank rank, Rank ranks);

  std::array<Step, kMaxSteps> steps_{};
  std::uint8_t count_ = 0;
  std::uint8_t exchanges_ = 0;
};

/// Rounds that any plan for so many ranks has at most.
[[nodiscard]] std::uint8_t rounds_of(Rank ranks);

/// The ranks that may wait for a message of `rank`, in any collective.
[[nodiscard]] std::vector<Rank> neighbours_of(Rank rank, Rank ranks);

}  // namespace rockhopper::ami
