// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What a requester waits for and how often it tries again: without an engine.
#include "roce/rc/retry.h"

#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "stack/link.h"
#include "stack/timing_wheel.h"
#include "tests/support/seed.h"

namespace rockhopper::test::retry_test {
namespace {

using roce::rc::Retry;
using State = Retry::State;

constexpr std::uint64_t kStart = 1'000'000;
constexpr std::uint64_t kLater = kStart + 500'000;
constexpr std::uint8_t kRetries = 3;
constexpr std::uint8_t kRnrRetries = 2;

class RetryTest : public ::testing::Test {
 protected:
  RetryTest() {
    wheel_.advance(kStart);
    retry_.reset(wheel_, kRetries, kRnrRetries);
  }

  /// What was waited for each time when the timer had expired up to `now_ns`.
  std::vector<State> expired_by(std::uint64_t now_ns) {
    expired_.clear();
    wheel_.advance(now_ns);
    return expired_;
  }
  std::vector<State> expired_in_time() { return expired_by(kLater + wheel_.tick_ns()); }
  void await_answer() { retry_.await_answer(wheel_, kLater); }
  void await_receiver() { retry_.await_receiver(wheel_, kLater); }
  void on_unreachable(bool pending = true) { retry_.on_unreachable(wheel_, pending, kLater); }

  std::vector<State> expired_;
  stack::TimingWheel wheel_{1024};
  Retry retry_{[](void* self, std::uint64_t /*now_ns*/) {
                 auto& test = *static_cast<RetryTest*>(self);
                 test.expired_.push_back(test.retry_.on_expired());
               },
               this};
};

using Expired = std::vector<State>;

TEST_F(RetryTest, WaitsForNothingAtFirst) {
  EXPECT_TRUE(retry_.is_idle());
  EXPECT_TRUE(wheel_.empty());
  EXPECT_EQ(retry_.retries_left(), kRetries);
  EXPECT_FALSE(retry_.is_loss_known());
}

TEST_F(RetryTest, Clause9_7_6_1_3_AnswerIsAwaitedForItsTime) {
  await_answer();
  EXPECT_EQ(retry_.state(), State::awaiting_ack);
  EXPECT_EQ(expired_by(kLater - 1), Expired{});
  EXPECT_EQ(expired_in_time(), Expired{State::awaiting_ack});
  EXPECT_TRUE(retry_.is_idle());
  EXPECT_TRUE(wheel_.empty());
}

TEST_F(RetryTest, AnswerIsAwaitedAnew) {
  await_answer();
  retry_.await_answer(wheel_, kLater + 100'000);
  EXPECT_EQ(expired_in_time(), Expired{});
  EXPECT_EQ(expired_by(kLater + 100'000 + wheel_.tick_ns()), Expired{State::awaiting_ack});
}

TEST_F(RetryTest, NothingMoreToAwait) {
  await_answer();
  retry_.await_nothing(wheel_);
  EXPECT_TRUE(retry_.is_idle());
  EXPECT_EQ(expired_in_time(), Expired{});
}

TEST_F(RetryTest, Clause9_7_5_2_8_RnrWaitIsOverWhenItsTimerExpires) {
  await_answer();
  await_receiver();
  EXPECT_TRUE(retry_.is_rnr_wait());
  EXPECT_EQ(expired_in_time(), Expired{State::rnr_wait});
  EXPECT_TRUE(retry_.is_idle());
}

TEST_F(RetryTest, ProgressEndsARnrWait) {
  await_receiver();
  retry_.on_progress(kRetries, kRnrRetries);
  EXPECT_EQ(retry_.state(), State::awaiting_ack);
  EXPECT_EQ(expired_in_time(), Expired{State::awaiting_ack});
}

TEST_F(RetryTest, UnreachableIsAWaitOfItsOwnOnlyWhereThereAreRequests) {
  on_unreachable(false);
  EXPECT_TRUE(retry_.is_idle());
  on_unreachable();
  EXPECT_EQ(retry_.state(), State::unreachable);
  EXPECT_EQ(expired_in_time(), Expired{State::unreachable});
}

TEST_F(RetryTest, UnreachableWithoutATimeoutWaitsForNothing) {
  retry_.on_unreachable(wheel_, true, stack::kNever);
  EXPECT_TRUE(retry_.is_idle());
  EXPECT_TRUE(wheel_.empty());
}

TEST_F(RetryTest, UnreachableLeavesATimerThatRuns) {
  await_answer();
  retry_.on_unreachable(wheel_, true, kLater + 100'000);
  EXPECT_EQ(retry_.state(), State::unreachable);
  EXPECT_EQ(expired_in_time(), Expired{State::unreachable});
}

TEST_F(RetryTest, UnreachableLeavesARnrWait) {
  await_receiver();
  retry_.on_unreachable(wheel_, true, kLater + 100'000);
  EXPECT_EQ(expired_in_time(), Expired{State::rnr_wait});
}

TEST_F(RetryTest, ReachableAgainTheTimerRunsForTheAnswer) {
  on_unreachable();
  retry_.on_reachable();
  EXPECT_EQ(expired_in_time(), Expired{State::awaiting_ack});
}

TEST_F(RetryTest, ReachableIsNoNewsElsewhere) {
  retry_.on_reachable();
  EXPECT_TRUE(retry_.is_idle());
  await_receiver();
  retry_.on_reachable();
  EXPECT_TRUE(retry_.is_rnr_wait());
}

TEST_F(RetryTest, UnreachableStaysSoWhenAnotherAnswerIsAwaited) {
  on_unreachable();
  await_answer();
  EXPECT_EQ(retry_.state(), State::unreachable);
}

TEST_F(RetryTest, Clause9_9_2_RetriesAreUsedUp) {
  for (int i = 0; i < kRetries; ++i) {
    EXPECT_TRUE(retry_.use_retry()) << i;
  }
  EXPECT_EQ(retry_.retries_left(), 0);
  EXPECT_FALSE(retry_.use_retry());
  EXPECT_FALSE(retry_.use_retry()) << "and stay so";
}

TEST_F(RetryTest, Clause9_9_2_RnrRetriesAreUsedUp) {
  for (int i = 0; i < kRnrRetries; ++i) {
    EXPECT_TRUE(retry_.use_rnr_retry(kRnrRetries)) << i;
  }
  EXPECT_FALSE(retry_.use_rnr_retry(kRnrRetries));
  EXPECT_EQ(retry_.retries_left(), kRetries) << "they are counted apart";
}

TEST_F(RetryTest, Clause9_7_5_2_8_SevenIsWithoutLimit) {
  retry_.reset(wheel_, kRetries, Retry::kWithoutLimit);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(retry_.use_rnr_retry(Retry::kWithoutLimit));
  }
}

TEST_F(RetryTest, ProgressBringsBackAllRetries) {
  ASSERT_TRUE(retry_.use_retry());
  ASSERT_TRUE(retry_.use_rnr_retry(kRnrRetries));
  ASSERT_TRUE(retry_.use_rnr_retry(kRnrRetries));
  retry_.note_known_loss();
  retry_.on_progress(kRetries, kRnrRetries);
  EXPECT_EQ(retry_.retries_left(), kRetries);
  EXPECT_TRUE(retry_.use_rnr_retry(kRnrRetries));
  EXPECT_FALSE(retry_.is_loss_known());
}

TEST_F(RetryTest, SignOfLifeBringsBackRetriesButNotThoseOfRnrNaks) {
  ASSERT_TRUE(retry_.use_retry());
  ASSERT_TRUE(retry_.use_rnr_retry(kRnrRetries));
  ASSERT_TRUE(retry_.use_rnr_retry(kRnrRetries));
  retry_.note_known_loss();
  retry_.on_sign_of_life(kRetries);
  EXPECT_EQ(retry_.retries_left(), kRetries);
  EXPECT_FALSE(retry_.use_rnr_retry(kRnrRetries));
  EXPECT_TRUE(retry_.is_loss_known());
}

TEST_F(RetryTest, ImpliedNakCountsOnceUntilItIsForgotten) {
  retry_.note_known_loss();
  EXPECT_TRUE(retry_.is_loss_known());
  retry_.forget_known_loss();
  EXPECT_FALSE(retry_.is_loss_known());
}

TEST_F(RetryTest, ReceptionIsProgressOnlyWhereItIsMoreThanBefore) {
  const auto retries_after = [&](std::uint32_t distance) {
    (void)retry_.use_retry();
    retry_.note_known_loss();
    retry_.on_received(distance, kRetries);
    EXPECT_EQ(retry_.is_loss_known(), retry_.retries_left() != kRetries);
    return retry_.retries_left();
  };
  EXPECT_EQ(retries_after(5), kRetries);
  EXPECT_EQ(retries_after(5), kRetries - 1);
  EXPECT_EQ(retries_after(4), kRetries - 2);
  EXPECT_EQ(retries_after(6), kRetries);
  retry_.on_progress(kRetries, kRnrRetries);
  EXPECT_EQ(retries_after(1), kRetries) << "counted from the oldest unacknowledged one on";
}

TEST_F(RetryTest, PauseWaitsForNothingAndCountsAnew) {
  ASSERT_TRUE(retry_.use_retry());
  ASSERT_TRUE(retry_.use_rnr_retry(kRnrRetries));
  retry_.note_known_loss();
  await_receiver();
  retry_.pause(wheel_, kRetries);
  EXPECT_TRUE(retry_.is_idle());
  EXPECT_TRUE(wheel_.empty());
  EXPECT_EQ(retry_.retries_left(), kRetries);
  EXPECT_FALSE(retry_.is_loss_known());
}

TEST_F(RetryTest, StopWaitsForNothing) {
  on_unreachable();
  retry_.stop(wheel_);
  EXPECT_TRUE(retry_.is_idle());
  EXPECT_EQ(expired_in_time(), Expired{});
}

/// Whatever happens in whatever order, the wheel has the timer if and only if something is awaited.
TEST_F(RetryTest, TimerIsArmedIfAndOnlyIfTheStateSaysSo) {
  std::mt19937_64 random(seed());
  std::uint64_t now_ns = kStart;
  for (int step = 0; step < 100'000; ++step) {
    const std::uint64_t deadline_ns = now_ns + 1 + random() % 10'000;
    switch (random() % 8) {
      case 0:
        if (!retry_.is_rnr_wait()) retry_.await_answer(wheel_, deadline_ns);
        break;
      case 1:
        retry_.await_receiver(wheel_, deadline_ns);
        break;
      case 2:
        retry_.on_unreachable(wheel_, random() % 2 == 0, deadline_ns);
        break;
      case 3:
        retry_.on_reachable();
        break;
      case 4:
        retry_.on_progress(kRetries, kRnrRetries);
        break;
      case 5:
        if (random() % 4 == 0) retry_.await_nothing(wheel_);
        break;
      case 6:
        if (random() % 4 == 0) retry_.pause(wheel_, kRetries);
        break;
      default:
        now_ns += random() % 10'000;
        expired_.clear();
        wheel_.advance(now_ns);
        ASSERT_LE(expired_.size(), 1u);
        break;
    }
    ASSERT_EQ(wheel_.empty(), retry_.is_idle()) << step;
  }
}

#ifndef NDEBUG
TEST(RetryDeathTest, NoAnswerIsAwaitedDuringARnrWait) {
  stack::TimingWheel wheel(1024);
  Retry retry([](void*, std::uint64_t) {}, nullptr);
  retry.await_receiver(wheel, kLater);
  EXPECT_DEATH(retry.await_answer(wheel, kLater), "rnr_wait");
}

TEST(RetryDeathTest, ExpiryMustBeTold) {
  stack::TimingWheel wheel(1024);
  Retry retry([](void*, std::uint64_t) {}, nullptr);
  retry.await_receiver(wheel, kLater);
  wheel.advance(kLater + wheel.tick_ns());
  EXPECT_DEATH(retry.on_progress(kRetries, kRnrRetries), "armed");
}
#endif

}  // namespace
}  // namespace rockhopper::test::retry_test
