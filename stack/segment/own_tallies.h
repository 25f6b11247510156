// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "stack/segment/layout.h"

namespace rockhopper::stack::segment {

/// A member's hand on its tallies: they go on from those that the last member of its slot has left,
/// whatever these are. One thread.
class OwnTallies {
 public:
  /// `tallies` are this member's, and not owned.
  explicit OwnTallies(Tallies& tallies) : tallies_(tallies) {
    for (std::size_t i = 0; i < kTallies; ++i) {
      before_[i] = tallies_[i].load(std::memory_order_relaxed);
    }
  }

  /// This member has counted `value` so far, which may not be less than the last time.
  void set(std::size_t tally, std::uint64_t value) {
    tallies_[tally].store(before_[tally] + value, std::memory_order_relaxed);
  }

 private:
  Tallies& tallies_;
  std::array<std::uint64_t, kTallies> before_;
};

}  // namespace rockhopper::stack::segment
