// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string_view>

namespace rockhopper::dag {

/// The number of a node in its graph, from 0 on.
using NodeIndex = std::uint32_t;

/// The constraints of an edge (DG-3), any number of them together. Whichever they are, the
/// successor starts after the predecessor has ended.
enum Constraint : std::uint8_t {
  kData = 1 << 0,       ///< the successor reads the predecessor's output
  kOrderOnly = 1 << 1,  ///< it reads nothing; not together with kData
  kAffinity = 1 << 2,   ///< it runs at a worker that has a label, or where the predecessor ran
  kNotBefore = 1 << 3,  ///< it starts some time after the predecessor's end
};

/// An affinity to the worker that has run the predecessor. All other values are labels: numbers
/// that a worker has been given, for what it is or what it has.
inline constexpr std::uint32_t kSameWorker = UINT32_MAX;

struct EdgeConstraints {
  std::uint8_t set = kData;         ///< of Constraint
  std::uint32_t affinity = 0;       ///< with kAffinity, else 0
  std::uint64_t not_before_ns = 0;  ///< after the predecessor's end; with kNotBefore, else 0
  friend bool operator==(const EdgeConstraints&, const EdgeConstraints&) = default;
};

/// An edge as its predecessor has it.
struct Edge {
  NodeIndex to = 0;
  EdgeConstraints constraints{};
  friend bool operator==(const Edge&, const Edge&) = default;
};

/// What is wrong with the constraints by themselves; empty: nothing.
[[nodiscard]] constexpr std::string_view problem_of(const EdgeConstraints& constraints) {
  constexpr unsigned kAll = kData | kOrderOnly | kAffinity | kNotBefore;
  if (constraints.set == 0) return "has no constraint";
  if ((constraints.set & ~kAll) != 0) return "has a constraint that is not known";
  if ((constraints.set & kData) != 0 && (constraints.set & kOrderOnly) != 0) {
    return "is for data and for the order only";
  }
  if ((constraints.set & kAffinity) == 0 && constraints.affinity != 0) {
    return "has a label and no affinity";
  }
  if ((constraints.set & kNotBefore) == 0 && constraints.not_before_ns != 0) {
    return "has a time to wait and no constraint for it";
  }
  return {};
}

}  // namespace rockhopper::dag
