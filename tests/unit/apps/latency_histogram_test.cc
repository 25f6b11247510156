// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/latency_histogram.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace rockhopper::apps {
namespace {

TEST(LatencyHistogram, IsEmptyAtFirst) {
  const auto histogram = std::make_unique<LatencyHistogram>();
  EXPECT_EQ(histogram->summary(1).count, 0u);
  EXPECT_EQ(histogram->percentile_ns(0.5), 0);
}

TEST(LatencyHistogram, AgreesWithSortedSamples) {
  std::mt19937_64 random(test::seed());
  const auto histogram = std::make_unique<LatencyHistogram>();
  std::vector<double> samples;
  for (int i = 0; i < 20000; ++i) {
    // All magnitudes from nanoseconds to minutes.
    const std::uint64_t sample = random() >> (28 + random() % 36);
    histogram->add(sample);
    samples.push_back(static_cast<double>(sample));
  }
  std::sort(samples.begin(), samples.end());
  for (const double fraction : {0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = std::max<std::size_t>(
        1, static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(samples.size()))));
    const double exact = samples[rank - 1];
    EXPECT_NEAR(histogram->percentile_ns(fraction), exact, exact * 0.001 + 0.5) << fraction;
  }
  double sum = 0;
  for (const double sample : samples) {
    sum += sample;
  }
  const double mean = sum / static_cast<double>(samples.size());
  double squares = 0;
  for (const double sample : samples) {
    squares += (sample - mean) * (sample - mean);
  }
  const LatencySummary summary = histogram->summary(0.5);
  EXPECT_EQ(summary.count, samples.size());
  EXPECT_EQ(summary.min_ns, samples.front() / 2);
  EXPECT_EQ(summary.max_ns, samples.back() / 2);
  EXPECT_NEAR(summary.average_ns, mean / 2, mean * 1e-9);
  EXPECT_NEAR(summary.standard_deviation_ns,
              std::sqrt(squares / static_cast<double>(samples.size())) / 2, mean * 1e-6);
}

TEST(LatencyHistogram, TakesTheLongestDurations) {
  const auto histogram = std::make_unique<LatencyHistogram>();
  histogram->add(UINT64_MAX);
  histogram->add(0);
  EXPECT_EQ(histogram->percentile_ns(0.5), 0);
  EXPECT_GT(histogram->percentile_ns(1.0), 1e15);
}

}  // namespace
}  // namespace rockhopper::apps
