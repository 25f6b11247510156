// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::verbs {

/// How long the calling thread goes on looking for packets before it sleeps: 0 to 50 us. Less after
/// the scheduler took its processor away, as then another thread wanted it; more while that does
/// not happen.
class Spinning {
 public:
  /// For the thread that calls it, which is to spin.
  void begin();
  [[nodiscard]] std::uint64_t limit_ns() const { return limit_ns_; }
  /// The thread is about to sleep.
  void adapt();

 private:
  std::uint64_t limit_ns_ = 0;
  std::uint64_t most_ns_ = 0;
  long preemptions_ = 0;
};

}  // namespace rockhopper::verbs
