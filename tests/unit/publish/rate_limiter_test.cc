// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/rate_limiter.h"

#include <gtest/gtest.h>

namespace rockhopper::apps::publish::rate_limiter_test {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

/// How many may go from `begin_ns` to `end_ns` to somebody who asks every `step_ns`, and takes all.
std::uint64_t taken(RateLimiter& limiter, std::uint64_t begin_ns, std::uint64_t end_ns,
                    std::uint64_t step_ns) {
  std::uint64_t count = 0;
  for (std::uint64_t now_ns = begin_ns; now_ns < end_ns; now_ns += step_ns) {
    while (limiter.ready(now_ns)) {
      limiter.take(now_ns);
      ++count;
    }
  }
  return count;
}

TEST(RateLimiter, WithoutARateEverythingMayGo) {
  RateLimiter limiter(0);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(limiter.ready(5));
    limiter.take(5);
  }
}

TEST(RateLimiter, GivesTheRateWhateverTheSteps) {
  for (const double rate : {0.5, 3.0, 1000.0, 33'333.0, 1e6}) {
    for (const std::uint64_t step_ns : {700u, 50'000u, 1'000'000u}) {
      RateLimiter limiter(rate);
      const auto count = taken(limiter, 7, 7 + 4 * kSecond, step_ns * (rate < 10 ? 100 : 1));
      // The first one goes at once.
      EXPECT_NEAR(static_cast<double>(count), 4 * rate + 1, 1 + rate * 1e-3) << rate;
    }
  }
}

TEST(RateLimiter, TheNextOneIsDueAsItSays) {
  RateLimiter limiter(1000);
  limiter.take(0);
  EXPECT_EQ(limiter.next_deadline_ns(), 1'000'000u);
  EXPECT_FALSE(limiter.ready(999'999));
  EXPECT_TRUE(limiter.ready(1'000'000));
}

TEST(RateLimiter, AShortDelayIsMadeUpForAndALongOneIsNot) {
  RateLimiter limiter(1000);
  limiter.take(0);
  const std::uint64_t shortly = RateLimiter::kPatienceNs / 2;
  EXPECT_EQ(taken(limiter, shortly, shortly + 1, 1), shortly / 1'000'000);
  const std::uint64_t late = 10 * kSecond;
  EXPECT_EQ(taken(limiter, late, late + 1, 1), 1u);
}

}  // namespace
}  // namespace rockhopper::apps::publish::rate_limiter_test
