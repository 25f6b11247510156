// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

namespace rockhopper::apps::publish {

/// So many messages a second, evenly, without drift. What could not be sent in time is made up for
/// kPatienceNs at most, so that a pause of the input is not followed by a flood.
class RateLimiter {
 public:
  static constexpr std::uint64_t kPatienceNs = 100'000'000;

  /// `per_s` is above 0; 0: no limit.
  explicit RateLimiter(double per_s) : per_s_(per_s) {}

  /// Whether a message may go now. Then take() it.
  [[nodiscard]] bool ready(std::uint64_t now_ns) const { return now_ns >= due_ns_; }
  void take(std::uint64_t now_ns);
  /// When the next message may go; 0: at once.
  [[nodiscard]] std::uint64_t next_deadline_ns() const { return due_ns_; }

 private:
  double per_s_;
  std::uint64_t start_ns_ = 0;
  std::uint64_t taken_ = 0;  ///< since then
  std::uint64_t due_ns_ = 0;
};

}  // namespace rockhopper::apps::publish
