// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>

#include "apps/services/dag/lease.h"

namespace rockhopper::dag {

/// Holds up the lease of a worker at its home, so that what the worker saw on the board last is so
/// until it looks again. What has been claimed, and all entries of its deques, are of runs that are
/// on the board still: their memory is not given to others before.
class LeaseKeeper {
 public:
  /// The lease must outlive it.
  explicit LeaseKeeper(Lease& lease) : lease_(lease) {}
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;
  ~LeaseKeeper() {
    if (since_) lease_.unhold(*since_);
  }

  /// Something holds: what was seen then, or later.
  [[nodiscard]] bool holds() const { return since_.has_value(); }
  /// What was seen when Lease::renewals() was `since` holds from now on, in place of what was seen
  /// before. Without effect if that is too long ago.
  void hold(std::uint64_t since) {
    if (since_ == since || !lease_.hold(since)) return;
    if (since_) lease_.unhold(*since_);
    since_ = since;
  }

 private:
  Lease& lease_;
  std::optional<std::uint64_t> since_;  ///< one hold() of the lease
};

}  // namespace rockhopper::dag
