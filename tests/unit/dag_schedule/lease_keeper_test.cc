// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Holding up the lease at what was seen of the board last.
#include "apps/services/dag/schedule/lease_keeper.h"

#include <optional>

#include <gtest/gtest.h>

namespace rockhopper::dag {
namespace {

class LeaseKeeperTest : public ::testing::Test {
 protected:
  LeaseKeeperTest() {
    lease_.begin(8000, 0);
    keeper_.emplace(lease_);
  }
  /// A renewal is posted and completes.
  void renew() {
    lease_.on_posted(0);
    lease_.on_complete(lease_.posted());
  }

  Lease lease_;
  std::optional<LeaseKeeper> keeper_;
};

TEST_F(LeaseKeeperTest, HoldsUpTheRenewalAfterTheNext) {
  EXPECT_FALSE(keeper_->holds());
  keeper_->hold(lease_.renewals());
  EXPECT_TRUE(keeper_->holds());
  EXPECT_FALSE(lease_.is_held()) << "one renewal may come";
  renew();
  EXPECT_TRUE(lease_.is_held());
}

TEST_F(LeaseKeeperTest, LetsGoOfWhatItHeldBefore) {
  keeper_->hold(lease_.renewals());
  renew();
  ASSERT_TRUE(lease_.is_held());
  keeper_->hold(lease_.renewals());
  EXPECT_FALSE(lease_.is_held());
  renew();
  EXPECT_TRUE(lease_.is_held()) << "now the later one does";
}

TEST_F(LeaseKeeperTest, HoldsOnceWhatItIsToldTwice) {
  const std::uint64_t since = lease_.renewals();
  keeper_->hold(since);
  keeper_->hold(since);
  renew();
  ASSERT_TRUE(lease_.is_held());
  keeper_->hold(lease_.renewals());
  EXPECT_FALSE(lease_.is_held());
}

TEST_F(LeaseKeeperTest, KeepsWhatItHasIfTheOtherIsTooLongAgo) {
  renew();
  renew();
  const std::uint64_t since = lease_.renewals();
  keeper_->hold(since - 2);
  EXPECT_FALSE(keeper_->holds());
  keeper_->hold(since);
  keeper_->hold(since - 2);
  EXPECT_TRUE(keeper_->holds());
  renew();
  EXPECT_TRUE(lease_.is_held());
}

TEST_F(LeaseKeeperTest, LetsGoWhenItEnds) {
  keeper_->hold(lease_.renewals());
  renew();
  ASSERT_TRUE(lease_.is_held());
  keeper_.reset();
  EXPECT_FALSE(lease_.is_held());
}

}  // namespace
}  // namespace rockhopper::dag
