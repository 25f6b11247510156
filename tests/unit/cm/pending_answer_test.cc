// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// When a message is repeated, and how often (IBTA vol. 1, 12.6).
#include "roce/cm/pending_answer.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace rockhopper::roce::cm {
namespace {

constexpr std::uint64_t kStart = 1'000'000;
constexpr std::uint64_t kTimeout = 500'000;
constexpr Mad kMessage{1, 2, 3};

class PendingAnswerTest : public ::testing::Test {
 protected:
  PendingAnswerTest() { wheel_.advance(kStart); }
  void await(std::uint8_t retries = 2) {
    pending_.await(wheel_, kStart, kMessage, kTimeout, retries);
  }
  /// How often the timer has expired up to then.
  unsigned expired_by(std::uint64_t now_ns) {
    wheel_.advance(now_ns);
    return expired_;
  }
  /// The same at a time, whatever the wheel's grain.
  unsigned expired_at(std::uint64_t now_ns) { return expired_by(now_ns + wheel_.tick_ns()); }

  stack::TimingWheel wheel_{1024};
  unsigned expired_ = 0;
  PendingAnswer pending_{
      [](void* self, std::uint64_t) { ++static_cast<PendingAnswerTest*>(self)->expired_; }, this};
};

TEST_F(PendingAnswerTest, KeepsTheMessageToBeRepeated) {
  EXPECT_FALSE(pending_.has_message());
  await();
  EXPECT_TRUE(pending_.has_message());
  EXPECT_EQ(pending_.message(), kMessage);
  EXPECT_EQ(expired_by(kStart + kTimeout - 1), 0u);
  EXPECT_EQ(expired_at(kStart + kTimeout), 1u);
}

TEST_F(PendingAnswerTest, HasSoManyRetries) {
  await(2);
  EXPECT_TRUE(pending_.use_retry());
  EXPECT_TRUE(pending_.use_retry());
  EXPECT_FALSE(pending_.use_retry());
  await(1);
  EXPECT_TRUE(pending_.use_retry());
}

TEST_F(PendingAnswerTest, WaitsAsLongEachTimeAndLongerIfAsked) {
  await();
  ASSERT_EQ(expired_at(kStart + kTimeout), 1u);
  const std::uint64_t now_ns = kStart + 2 * kTimeout;
  pending_.wait_again(wheel_, now_ns);
  EXPECT_EQ(expired_by(now_ns + kTimeout - 1), 1u);
  EXPECT_EQ(expired_at(now_ns + kTimeout), 2u);
  const std::uint64_t later_ns = now_ns + 2 * kTimeout;
  pending_.wait_again(wheel_, later_ns, 3 * kTimeout);
  EXPECT_EQ(expired_by(later_ns + 4 * kTimeout - 1), 2u);
  EXPECT_EQ(expired_at(later_ns + 4 * kTimeout), 3u);
}

TEST_F(PendingAnswerTest, WaitsForNothingWhenItIsAnswered) {
  await();
  pending_.stop(wheel_);
  EXPECT_EQ(expired_at(kStart + 10 * kTimeout), 0u);
  EXPECT_TRUE(wheel_.empty());
}

TEST_F(PendingAnswerTest, KeepsALastWordWithoutWaiting) {
  await();
  pending_.keep(wheel_, Mad{9});
  EXPECT_EQ(pending_.message(), Mad{9});
  EXPECT_TRUE(wheel_.empty());
  pending_.keep(wheel_, {});
  EXPECT_FALSE(pending_.has_message());
}

TEST_F(PendingAnswerTest, TheTimerServesOtherWaits) {
  pending_.wait_until(wheel_, kStart + 100'000);
  EXPECT_EQ(expired_by(kStart + 100'000 - 1), 0u);
  EXPECT_EQ(expired_at(kStart + 100'000), 1u);
}

}  // namespace
}  // namespace rockhopper::roce::cm
