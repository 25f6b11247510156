// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_sim/arrivals.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace rockhopper::apps::sim {
namespace {

using Points = std::vector<SizeDistribution::Point>;

TEST(SizeDistribution, SaysWhatIsWrong) {
  EXPECT_FALSE(SizeDistribution::problem_of(Points{{0, 1}, {1, 1}}).has_value());
  EXPECT_FALSE(SizeDistribution::problem_of(Points{{0, 1}, {0.5, 9}, {0.5, 20}, {1, 30}}));
  for (const Points& points :
       {Points{}, Points{{0, 1}}, Points{{0.1, 1}, {1, 2}}, Points{{0, 1}, {0.9, 2}},
        Points{{0, 0}, {1, 2}}, Points{{0, 3}, {1, 2}},
        Points{{0, 1}, {0.6, 2}, {0.5, 3}, {1, 4}}}) {
    EXPECT_TRUE(SizeDistribution::problem_of(points).has_value()) << points.size();
  }
}

TEST(SizeDistribution, DrawsWhatItSays) {
  const SizeDistribution sizes(Points{{0, 100}, {0.5, 100}, {0.5, 1000}, {1, 3000}});
  EXPECT_DOUBLE_EQ(sizes.mean(), 0.5 * 100 + 0.5 * 2000);
  EXPECT_EQ(sizes.largest(), 3000u);
  stack::Random random(test::seed());
  double sum = 0;
  int small = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const std::uint64_t size = sizes.draw(random);
    ASSERT_TRUE(size == 100 || (size >= 1000 && size <= 3000)) << size;
    small += size == 100 ? 1 : 0;
    sum += static_cast<double>(size);
  }
  // Six times the standard deviation of each.
  EXPECT_NEAR(small, kDraws / 2, 950);
  EXPECT_NEAR(sum / kDraws, sizes.mean(), 20);
}

TEST(Arrivals, HaveTheirLoadTimesAndPairs) {
  const SizeDistribution sizes(Points{{0, 1000}, {1, 1000}});
  ArrivalProcess process{.from = {1, 2, 3},
                         .to = {3, 4},
                         .bits_per_s = 8e9,  // a message each microsecond
                         .start_ns = 5'000,
                         .stop_ns = 100'005'000,
                         .seed = test::seed()};
  const auto arrivals = draw_arrivals(process, sizes, 1'000'000);
  EXPECT_NEAR(static_cast<double>(arrivals.size()), 100'000, 2'000);
  EXPECT_TRUE(std::is_sorted(arrivals.begin(), arrivals.end(),
                             [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; }));
  EXPECT_GE(arrivals.front().at_ns, process.start_ns);
  EXPECT_LT(arrivals.back().at_ns, process.stop_ns);
  // Gaps of a Poisson process are as long as their deviation: many are short, some are long.
  std::size_t long_gaps = 0;
  for (std::size_t i = 1; i < arrivals.size(); ++i) {
    ASSERT_NE(arrivals[i].from, arrivals[i].to);
    long_gaps += arrivals[i].at_ns - arrivals[i - 1].at_ns > 2'000 ? 1u : 0u;
  }
  EXPECT_NEAR(static_cast<double>(long_gaps), 0.1353 * 100'000, 1'000);
  const auto again = draw_arrivals(process, sizes, 10);
  ASSERT_EQ(again.size(), 10u);
  EXPECT_EQ(again[9].at_ns, arrivals[9].at_ns);
  ++process.seed;
  EXPECT_NE(draw_arrivals(process, sizes, 10)[9].at_ns, arrivals[9].at_ns);
}

}  // namespace
}  // namespace rockhopper::apps::sim
