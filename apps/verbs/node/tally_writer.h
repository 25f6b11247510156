// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>

#include "apps/verbs/abi/counter_files.h"
#include "apps/verbs/node/link.h"
#include "roce/engine.h"
#include "stack/segment/layout.h"
#include "stack/segment/own_tallies.h"

namespace rockhopper::verbs {

/// Tells the other processes of the segment what this one has counted. Nothing is told by itself.
/// One thread.
class TallyWriter {
 public:
  /// What is told is not older than this, in nanoseconds, where packets move all the time.
  static constexpr std::uint64_t kPeriodNs = 1'000'000;

  /// Nothing is owned.
  TallyWriter(stack::segment::Tallies& tallies, const NodeLink& link, const roce::Engine& engine);

  void write();

 private:
  void put(Tally tally, std::uint64_t value) {
    tallies_.set(static_cast<std::size_t>(tally), value);
  }

  stack::segment::OwnTallies tallies_;
  const NodeLink& link_;
  const roce::Engine& engine_;
};

}  // namespace rockhopper::verbs
