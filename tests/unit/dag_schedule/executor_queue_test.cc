// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What is prepared for the executor, and how far ahead of it nodes are claimed.
#include "apps/services/dag/schedule/executor_queue.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace rockhopper::dag::executor_queue_test {
namespace {

constexpr std::size_t kWindow = 32;
constexpr std::uint64_t kPrepareNs = 10'000;
/// Preparations that a node may wait for.
constexpr std::uint64_t kPatienceNs = 64 * kPrepareNs;

class ExecutorQueueTest : public ::testing::Test {
 protected:
  void push(std::uint32_t which, unsigned priority = 1, std::uint64_t urgency = 0) {
    queue_.push({.priority = priority, .urgency = urgency, .which = which}, kPrepareNs);
  }
  /// One job has begun and ended, in so much time.
  void run_job(std::uint64_t took_ns) {
    push(0);
    (void)queue_.start(now_ns_);
    now_ns_ += took_ns;
    queue_.on_job_ended(took_ns, now_ns_);
  }
  std::vector<std::uint32_t> start_all() {
    std::vector<std::uint32_t> started;
    while (!queue_.empty()) {
      started.push_back(queue_.start(now_ns_));
    }
    return started;
  }

  std::uint64_t now_ns_ = 1'000'000;
  ExecutorQueue queue_{kWindow};
};

using Started = std::vector<std::uint32_t>;

TEST_F(ExecutorQueueTest, DG41_TheMostUrgentNodeIsStartedFirst) {
  push(1, 1, 500);
  push(2, 0, 10);
  push(3, 1, 900);
  push(4, 0, 20);
  EXPECT_EQ(start_all(), (Started{4, 2, 3, 1}));
  EXPECT_EQ(queue_.jobs(), 4u);
}

TEST_F(ExecutorQueueTest, TheMostUrgentNodeIsNotTakenBack) {
  push(1, 1, 500);
  push(2, 1, 900);
  push(3, 1, 100);
  EXPECT_NE(queue_.take_back(), 2u);
  EXPECT_NE(queue_.take_back(), 2u);
  EXPECT_EQ(start_all(), Started{2});
}

TEST_F(ExecutorQueueTest, WhatIsUnwantedIsForgotten) {
  for (std::uint32_t i = 0; i < 6; ++i) {
    push(i, 1, i);
  }
  queue_.remove_if([](std::uint32_t which) { return which % 2 == 1; });
  EXPECT_EQ(start_all(), (Started{4, 2, 0}));
}

TEST_F(ExecutorQueueTest, WithoutExperienceALittleMoreThanTheRoomIsWanted) {
  EXPECT_EQ(queue_.wanted(4, now_ns_), 6u);
  EXPECT_EQ(queue_.wanted(kWindow, now_ns_), kWindow) << "never more than the window";
}

// As many as end while one is prepared, and half as many again.
TEST_F(ExecutorQueueTest, ShortJobsWantManyNodesAhead) {
  run_job(kPrepareNs / 4);
  EXPECT_EQ(queue_.wanted(1, now_ns_), 1 + 2 + 3 * 4 / 2u);
}

TEST_F(ExecutorQueueTest, SeveralJobsAtATimeWantMore) {
  run_job(kPrepareNs);
  push(0);
  push(1);
  (void)start_all();
  EXPECT_EQ(queue_.wanted(0, now_ns_), 2 + 3 * 2 / 2u);
}

TEST_F(ExecutorQueueTest, LongJobsWantNothingThatCannotStart) {
  run_job(kPatienceNs + 1);
  EXPECT_EQ(queue_.wanted(2, now_ns_), 2u);
  EXPECT_EQ(queue_.wanted(0, now_ns_), 0u);
}

TEST_F(ExecutorQueueTest, AnExecutorThatIsBusyForLongWantsNothing) {
  run_job(kPrepareNs);
  EXPECT_GT(queue_.wanted(0, now_ns_ + kPatienceNs), 0u);
  EXPECT_EQ(queue_.wanted(0, now_ns_ + kPatienceNs + 1), 0u);
  EXPECT_GT(queue_.wanted(1, now_ns_ + kPatienceNs + 1), 1u) << "there is room: it is not busy";
}

TEST_F(ExecutorQueueTest, ThatIsADeadlineIfSomethingWaits) {
  EXPECT_EQ(queue_.next_ns(), UINT64_MAX);
  run_job(kPrepareNs);
  push(1);
  EXPECT_EQ(queue_.next_ns(), now_ns_ + kPatienceNs + 1);
  (void)queue_.take_back();
  EXPECT_EQ(queue_.next_ns(), UINT64_MAX);
}

TEST_F(ExecutorQueueTest, ALittleMoreThanIsWantedMayStay) {
  run_job(kPrepareNs);
  EXPECT_EQ(queue_.kept(1, now_ns_), queue_.wanted(1, now_ns_) + 2);
  EXPECT_EQ(queue_.kept(0, now_ns_ + kPatienceNs + 1), 0u) << "nothing is wanted";
}

TEST_F(ExecutorQueueTest, TimesAreAveraged) {
  run_job(kPrepareNs);
  const std::size_t before = queue_.wanted(0, now_ns_);
  run_job(0);
  const std::size_t after_one = queue_.wanted(0, now_ns_);
  run_job(0);
  EXPECT_GE(after_one, before);
  EXPECT_GT(queue_.wanted(0, now_ns_), before);
}

}  // namespace
}  // namespace rockhopper::dag::executor_queue_test
