// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::verbs {

/// How long the calling thread goes on looking for packets before it sleeps: 0 to 50 us. Less after
/// the scheduler took its processor away, as then another thread wanted it, and where there are no
/// more processors than the application and its peer have use for, after the application's threads
/// have used theirs; more while that does not happen.
class Spinning {
 public:
  /// For the thread that calls it, which is to spin.
  void begin();
  [[nodiscard]] std::uint64_t limit_ns() const { return limit_ns_; }
  /// The thread is about to sleep.
  void adapt();

 private:
  void look_at_others();

  std::uint64_t limit_ns_ = 0;
  bool few_processors_ = false;
  long preemptions_ = 0;
  bool others_work_ = false;             ///< as was seen last
  std::uint64_t looked_ns_ = 0;          ///< when that was
  std::uint64_t used_by_others_ns_ = 0;  ///< processor time of the process without this thread
};

}  // namespace rockhopper::verbs
