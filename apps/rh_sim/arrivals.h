// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stack/random.h"
#include "stack/sim/network.h"

namespace rockhopper::apps::sim {

/// Message sizes by their cumulative distribution: straight lines between points.
class SizeDistribution {
 public:
  struct Point {
    double fraction = 0;  ///< of the messages are not larger
    std::uint64_t bytes = 0;
  };
  /// Returns what is wrong with `points`; nothing if they are a distribution: from fraction 0 to 1,
  /// both members never falling, sizes of at least a byte.
  [[nodiscard]] static std::optional<std::string> problem_of(std::span<const Point> points);

  /// Requires points without a problem.
  explicit SizeDistribution(std::vector<Point> points) : points_(std::move(points)) {}

  [[nodiscard]] double mean() const;
  [[nodiscard]] std::uint64_t largest() const { return points_.back().bytes; }
  [[nodiscard]] std::uint64_t draw(stack::Random& random) const;

 private:
  std::vector<Point> points_;
};

/// A message that comes into being at a time, between two different hosts.
struct Arrival {
  std::uint64_t at_ns = 0;
  stack::sim::NodeIndex from = 0;
  stack::sim::NodeIndex to = 0;
  std::uint32_t bytes = 0;
};

/// Messages that come at random and independently of each other (a Poisson process).
struct ArrivalProcess {
  std::vector<stack::sim::NodeIndex> from;
  std::vector<stack::sim::NodeIndex> to;
  double bits_per_s = 0;  ///< of messages, on average and in all
  std::uint64_t start_ns = 0;
  std::uint64_t stop_ns = 0;
  std::uint64_t seed = 1;
};

/// Draws all messages of a process, in the order of their times, but no more than `most`. Requires
/// that there are two hosts that differ.
[[nodiscard]] std::vector<Arrival> draw_arrivals(const ArrivalProcess& process,
                                                 const SizeDistribution& sizes, std::size_t most);

}  // namespace rockhopper::apps::sim
