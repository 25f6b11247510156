// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/ami/collective_plan.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace rockhopper::ami {
namespace {

/// Of ranks in a ring, `distance` further.
Rank after(Rank rank, std::uint32_t distance, Rank ranks) {
  return static_cast<Rank>((rank + distance) % ranks);
}

std::uint8_t ceil_log2(Rank ranks) {
  return static_cast<std::uint8_t>(std::bit_width(static_cast<unsigned>(ranks) - 1u));
}

/// Recursive doubling is for a power of two of ranks. Of the first 2 * `pairs` ranks, every second
/// one therefore gives its vector to the next and gets the result from it.
struct Folding {
  explicit Folding(Rank ranks)
      : doubling(std::bit_floor(ranks)), pairs(static_cast<Rank>(ranks - doubling)) {}
  [[nodiscard]] bool is_folded(Rank rank) const { return rank < 2 * pairs && rank % 2 == 0; }
  [[nodiscard]] bool folds(Rank rank) const { return rank < 2 * pairs && rank % 2 == 1; }
  /// Among those that double.
  [[nodiscard]] Rank place_of(Rank rank) const {
    return static_cast<Rank>(rank < 2 * pairs ? rank / 2 : rank - pairs);
  }
  [[nodiscard]] Rank rank_at(Rank place) const {
    return static_cast<Rank>(place < pairs ? 2 * place + 1 : place + pairs);
  }

  Rank doubling;
  Rank pairs;
};

}  // namespace

std::uint8_t rounds_of(Rank ranks) { return static_cast<std::uint8_t>(ceil_log2(ranks) + 2); }

void Plan::exchange(const Step& step) {
  assert(count_ == exchanges_ && count_ < kMaxSteps);
  steps_[count_++] = step;
  ++exchanges_;
}

void Plan::serve(const Step& step) {
  assert(count_ < kMaxSteps);
  steps_[count_++] = step;
}

Plan Plan::make(const CollectiveCall& call, Rank rank, Rank ranks) {
  Plan plan;
  switch (call.type) {
    case CollectiveType::barrier:
    case CollectiveType::sync:
      plan.make_barrier(rank, ranks);
      break;
    case CollectiveType::broadcast:
    case CollectiveType::long_broadcast:
      plan.make_broadcast(rank, ranks, call.root, call.type == CollectiveType::long_broadcast);
      break;
    case CollectiveType::all_reduce:
      plan.make_all_reduce(rank, ranks);
      break;
    case CollectiveType::abort:
      break;
  }
  return plan;
}

const Step* Plan::awaiting(std::uint8_t round, Rank from) const {
  for (const Step& step : steps()) {
    if (step.round == round && step.from == from) return &step;
  }
  return nullptr;
}

/// Dissemination: after round k a rank has heard, by others, of the 2^(k+1) - 1 before it.
void Plan::make_barrier(Rank rank, Rank ranks) {
  for (std::uint8_t round = 0; round < ceil_log2(ranks); ++round) {
    const std::uint32_t distance = 1u << round;
    exchange({.to = after(rank, distance, ranks),
              .from = after(rank, ranks - distance, ranks),
              .round = round});
  }
}

/// A binomial tree. Counted from the root, a rank's parent lacks its lowest bit, and its children
/// have one bit more, below that one; round k is where bit k makes the difference.
void Plan::make_broadcast(Rank rank, Rank ranks, Rank root, bool when_ready) {
  const Rank place = after(rank, ranks - root, ranks);
  const int levels = place == 0 ? ceil_log2(ranks) : std::countr_zero(place);
  if (place != 0) {
    const Rank parent = after(rank, ranks - (1u << levels), ranks);
    exchange({.to = when_ready ? parent : Step::kNobody,
              .from = parent,
              .round = static_cast<std::uint8_t>(levels),
              .take = Take::replace});
  }
  for (int level = levels - 1; level >= 0; --level) {
    if (place + (1u << level) >= ranks) continue;
    const Rank child = after(rank, 1u << level, ranks);
    serve({.to = child,
           .from = when_ready ? child : Step::kNobody,
           .round = static_cast<std::uint8_t>(level)});
  }
}

/// Whoever reduces two blocks has the same two operands in the same places, lower ranks first: all
/// ranks come to the same bits.
void Plan::make_all_reduce(Rank rank, Rank ranks) {
  const Folding folding(ranks);
  const auto rounds = static_cast<std::uint8_t>(std::countr_zero(folding.doubling));
  const auto last = static_cast<std::uint8_t>(rounds + 1);
  if (folding.is_folded(rank)) {
    const auto next = static_cast<Rank>(rank + 1);
    exchange({.to = next, .round = 0});
    exchange({.from = next, .round = last, .take = Take::replace});
    return;
  }
  const auto folded = static_cast<Rank>(rank - 1);
  if (folding.folds(rank)) exchange({.from = folded, .round = 0, .take = Take::lower});
  const Rank place = folding.place_of(rank);
  for (std::uint8_t round = 0; round < rounds; ++round) {
    const auto other = static_cast<Rank>(place ^ (1u << round));
    const Rank partner = folding.rank_at(other);
    exchange({.to = partner,
              .from = partner,
              .round = static_cast<std::uint8_t>(1 + round),
              .take = other < place ? Take::lower : Take::upper});
  }
  if (folding.folds(rank)) exchange({.to = folded, .round = last});
}

std::vector<Rank> neighbours_of(Rank rank, Rank ranks) {
  std::vector<Rank> found;
  // Barriers, and broadcasts from any root, which go along the same distances in the ring.
  for (std::uint32_t distance = 1; distance < ranks; distance *= 2) {
    found.push_back(after(rank, distance, ranks));
    found.push_back(after(rank, ranks - distance, ranks));
  }
  const Plan all_reduce = Plan::make({.type = CollectiveType::all_reduce}, rank, ranks);
  for (const Step& step : all_reduce.steps()) {
    for (const Rank other : {step.to, step.from}) {
      if (other != Step::kNobody) found.push_back(other);
    }
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace rockhopper::ami
