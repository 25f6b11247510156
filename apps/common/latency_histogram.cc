// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace rockhopper::apps {

std::size_t LatencyHistogram::bucket_of(std::uint64_t duration_ns) {
  const auto width = static_cast<unsigned>(std::bit_width(duration_ns));
  if (width <= kPrecisionBits) return static_cast<std::size_t>(duration_ns);
  const unsigned power = std::min(width - kPrecisionBits, kPowers);
  if (power < width - kPrecisionBits) return kPerPower * (kPowers + 1) - 1;
  // The top bit is set in all of a power, so the half of the buckets below it stays empty: it is
  // the price of a plain rule.
  return kPerPower * power + static_cast<std::size_t>(duration_ns >> power);
}

double LatencyHistogram::middle_of(std::size_t bucket) {
  const std::size_t power = bucket / kPerPower;
  if (power == 0) return static_cast<double>(bucket);
  const auto low = static_cast<double>((bucket % kPerPower) << power);
  return low + static_cast<double>(std::uint64_t{1} << power) / 2;
}

void LatencyHistogram::add(std::uint64_t duration_ns) {
  ++buckets_[bucket_of(duration_ns)];
  ++count_;
  min_ns_ = std::min(min_ns_, duration_ns);
  max_ns_ = std::max(max_ns_, duration_ns);
  const double distance = static_cast<double>(duration_ns) - mean_ns_;
  mean_ns_ += distance / static_cast<double>(count_);
  squares_ += distance * (static_cast<double>(duration_ns) - mean_ns_);
}

double LatencyHistogram::percentile_ns(double fraction) const {
  if (count_ == 0) return 0;
  const auto rank = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(std::ceil(fraction * static_cast<double>(count_))));
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    seen += buckets_[bucket];
    if (seen >= rank) {
      return std::clamp(middle_of(bucket), static_cast<double>(min_ns_),
                        static_cast<double>(max_ns_));
    }
  }
  return static_cast<double>(max_ns_);
}

LatencySummary LatencyHistogram::summary(double scale) const {
  LatencySummary summary;
  summary.count = count_;
  if (count_ == 0) return summary;
  summary.min_ns = static_cast<double>(min_ns_) * scale;
  summary.max_ns = static_cast<double>(max_ns_) * scale;
  summary.average_ns = mean_ns_ * scale;
  summary.standard_deviation_ns = std::sqrt(squares_ / static_cast<double>(count_)) * scale;
  summary.p50_ns = percentile_ns(0.5) * scale;
  summary.p90_ns = percentile_ns(0.9) * scale;
  summary.p99_ns = percentile_ns(0.99) * scale;
  summary.p999_ns = percentile_ns(0.999) * scale;
  return summary;
}

}  // namespace rockhopper::apps
