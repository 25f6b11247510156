// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace rockhopper::apps {

struct LatencySummary {
  std::uint64_t count = 0;
  double min_ns = 0;
  double max_ns = 0;
  double average_ns = 0;
  double standard_deviation_ns = 0;
  double p50_ns = 0;
  double p90_ns = 0;
  double p99_ns = 0;
  double p999_ns = 0;
};

/// Durations of any number in memory of fixed size. Extremes, average and deviation are exact;
/// percentiles are within 0.1 %.
class LatencyHistogram {
 public:
  void add(std::uint64_t duration_ns);
  void clear() { *this = LatencyHistogram(); }
  [[nodiscard]] std::uint64_t count() const { return count_; }

  /// The duration that `fraction` (0 to 1) of all do not exceed.
  [[nodiscard]] double percentile_ns(double fraction) const;
  /// All durations multiplied by `scale`.
  [[nodiscard]] LatencySummary summary(double scale) const;

 private:
  // Durations below 2^kPrecisionBits have a bucket each; above, so many share each power of two.
  static constexpr unsigned kPrecisionBits = 10;
  static constexpr std::size_t kPerPower = std::size_t{1} << kPrecisionBits;
  static constexpr unsigned kPowers = 40;  ///< up to 2^50 ns = 13 days; longer ones count as that

  [[nodiscard]] static std::size_t bucket_of(std::uint64_t duration_ns);
  [[nodiscard]] static double middle_of(std::size_t bucket);

  std::array<std::uint64_t, kPerPower*(kPowers + 1)> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t min_ns_ = UINT64_MAX;
  std::uint64_t max_ns_ = 0;
  double mean_ns_ = 0;
  double squares_ = 0;  ///< sum of squared distances from the mean (Welford)
};

}  // namespace rockhopper::apps
