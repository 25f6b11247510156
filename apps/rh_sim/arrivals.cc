// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_sim/arrivals.h"

#include <algorithm>
#include <cmath>

namespace rockhopper::apps::sim {
namespace {

/// Uniform in 0 to 1, never 1.
double uniform(stack::Random& random) { return static_cast<double>(random.next() >> 11) * 0x1p-53; }

}  // namespace

std::optional<std::string> SizeDistribution::problem_of(std::span<const Point> points) {
  if (points.size() < 2 || points.front().fraction != 0 || points.back().fraction != 1) {
    return "points from fraction 0 to fraction 1 are expected";
  }
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].bytes == 0) return "a size of at least a byte is expected";
    if (i > 0 &&
        (points[i].fraction < points[i - 1].fraction || points[i].bytes < points[i - 1].bytes)) {
      return "fractions and sizes must not fall";
    }
  }
  return {};
}

double SizeDistribution::mean() const {
  double sum = 0;
  for (std::size_t i = 1; i < points_.size(); ++i) {
    sum += (points_[i].fraction - points_[i - 1].fraction) *
           static_cast<double>(points_[i].bytes + points_[i - 1].bytes) / 2;
  }
  return sum;
}

std::uint64_t SizeDistribution::draw(stack::Random& random) const {
  const double fraction = uniform(random);
  const auto above = std::find_if(points_.begin() + 1, points_.end() - 1,
                                  [&](const Point& point) { return fraction < point.fraction; });
  const Point& below = *(above - 1);
  const double width = above->fraction - below.fraction;
  const double part = width == 0 ? 0 : (fraction - below.fraction) / width;
  return below.bytes +
         static_cast<std::uint64_t>(part * static_cast<double>(above->bytes - below.bytes));
}

std::vector<Arrival> draw_arrivals(const ArrivalProcess& process, const SizeDistribution& sizes,
                                   std::size_t most) {
  // Each quantity has a generator of its own: a change of one leaves the others as they were.
  stack::Random times(process.seed);
  stack::Random pairs(times.next());
  stack::Random bytes(times.next());
  const double mean_gap_ns = sizes.mean() * 8e9 / process.bits_per_s;
  std::vector<Arrival> arrivals;
  double at_ns = static_cast<double>(process.start_ns);
  while (arrivals.size() < most) {
    at_ns -= std::log(1 - uniform(times)) * mean_gap_ns;
    if (at_ns >= static_cast<double>(process.stop_ns)) break;
    Arrival arrival{.at_ns = static_cast<std::uint64_t>(at_ns)};
    do {
      arrival.from = process.from[pairs.below(process.from.size())];
      arrival.to = process.to[pairs.below(process.to.size())];
    } while (arrival.from == arrival.to);
    arrival.bytes = static_cast<std::uint32_t>(sizes.draw(bytes));
    arrivals.push_back(arrival);
  }
  return arrivals;
}

}  // namespace rockhopper::apps::sim
