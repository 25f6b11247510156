// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// A client's lease: until when it holds, when it is renewed, what holds that up (DG-30).
#include "apps/services/dag/lease.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace rockhopper::dag {
namespace {

constexpr std::uint64_t kStart = 1'000'000;
constexpr std::uint64_t kLease = 80'000;

class LeaseTest : public ::testing::Test {
 protected:
  LeaseTest() { lease_.begin(kLease, kStart); }
  void post(std::uint64_t now_ns = kStart) { lease_.on_posted(now_ns); }
  void complete(std::uint64_t number) { lease_.on_complete(number & Lease::kNumberMask); }
  void renew(std::uint64_t now_ns = kStart) {
    post(now_ns);
    complete(lease_.posted());
  }

  Lease lease_;
};

TEST_F(LeaseTest, IsRenewedAtOnceThenBeforeItsEnd) {
  EXPECT_TRUE(lease_.is_due(kStart));
  post();
  EXPECT_FALSE(lease_.is_due(kStart + kLease / Lease::kRenewals - 1));
  EXPECT_TRUE(lease_.is_due(kStart + kLease / Lease::kRenewals));
}

// The server cannot have counted what it has not got: the lease holds from when a renewal was
// posted, and only once it is complete.
TEST_F(LeaseTest, HoldsFromTheLastRenewalThatIsComplete) {
  EXPECT_FALSE(lease_.has_ended(kStart + kLease - 1));
  EXPECT_TRUE(lease_.has_ended(kStart + kLease));
  post(kStart + 1000);
  EXPECT_TRUE(lease_.has_ended(kStart + kLease));
  complete(1);
  EXPECT_FALSE(lease_.has_ended(kStart + 1000 + kLease - 1));
  EXPECT_TRUE(lease_.has_ended(kStart + 1000 + kLease));
}

TEST_F(LeaseTest, ARenewalCountsWhenItIsComplete) {
  const std::uint64_t before = lease_.renewals();
  post();
  post();
  EXPECT_EQ(lease_.renewals(), before);
  complete(1);
  EXPECT_EQ(lease_.renewals(), before + 1);
  complete(2);
  EXPECT_EQ(lease_.renewals(), before + 2);
}

TEST_F(LeaseTest, NumbersAreToldByTheirLowerBits) {
  const std::uint64_t before = lease_.renewals();
  for (std::uint64_t i = 1; i <= Lease::kNumberMask + 3; ++i) {
    renew(kStart + i);
  }
  EXPECT_EQ(lease_.renewals(), before + Lease::kNumberMask + 3);
  EXPECT_TRUE(lease_.has_ended(kStart + Lease::kNumberMask + 3 + kLease));
  EXPECT_FALSE(lease_.has_ended(kStart + Lease::kNumberMask + 2 + kLease));
}

TEST_F(LeaseTest, DG30_WhatIsHeldLetsOneRenewalPass) {
  ASSERT_TRUE(lease_.hold(lease_.renewals()));
  EXPECT_FALSE(lease_.is_held());
  renew();
  EXPECT_TRUE(lease_.is_held());
  lease_.unhold(lease_.renewals() - 1);
  EXPECT_FALSE(lease_.is_held());
}

TEST_F(LeaseTest, DG30_EachHoldNeedsItsEnd) {
  const std::uint64_t since = lease_.renewals();
  ASSERT_TRUE(lease_.hold(since));
  ASSERT_TRUE(lease_.hold(since));
  renew();
  lease_.unhold(since);
  EXPECT_TRUE(lease_.is_held());
  lease_.unhold(since);
  EXPECT_FALSE(lease_.is_held());
}

TEST_F(LeaseTest, DG30_WhatIsTwoRenewalsOldCannotBeHeld) {
  const std::uint64_t since = lease_.renewals();
  renew();
  EXPECT_TRUE(lease_.hold(since));
  lease_.unhold(since);
  renew();
  EXPECT_FALSE(lease_.hold(since));
  EXPECT_FALSE(lease_.hold(lease_.renewals() + 1)) << "nor what is still to come";
}

// Else one old hold after the other would keep a renewal waiting until the lease ends.
TEST_F(LeaseTest, WhatIsOldCannotBeHeldWhileARenewalWaits) {
  const std::uint64_t since = lease_.renewals();
  ASSERT_TRUE(lease_.hold(since));
  renew();
  EXPECT_TRUE(lease_.hold_up());
  EXPECT_FALSE(lease_.hold_up()) << "it is known";
  EXPECT_TRUE(lease_.is_held_up());
  EXPECT_FALSE(lease_.hold(since));
  EXPECT_TRUE(lease_.hold(since + 1));
  lease_.unhold(since);
  EXPECT_FALSE(lease_.is_held_up()) << "the renewal is due";
}

TEST_F(LeaseTest, AHeldUpRenewalIsNoDeadline) {
  renew();
  EXPECT_EQ(lease_.next_deadline_ns(), kStart + kLease / Lease::kRenewals);
  lease_.hold_up();
  EXPECT_EQ(lease_.next_deadline_ns(), kStart + kLease);
}

TEST_F(LeaseTest, NothingOfAnEarlierConnectionHolds) {
  const std::uint64_t since = lease_.renewals();
  ASSERT_TRUE(lease_.hold(since));
  lease_.end();
  EXPECT_FALSE(lease_.is_on());
  EXPECT_FALSE(lease_.is_due(kStart));
  EXPECT_FALSE(lease_.has_ended(kStart + kLease));
  EXPECT_EQ(lease_.next_deadline_ns(), UINT64_MAX);
  EXPECT_FALSE(lease_.hold(since));

  lease_.begin(kLease, kStart + kLease);
  EXPECT_GE(lease_.renewals(), since + 2);
  EXPECT_FALSE(lease_.hold(since));
  EXPECT_FALSE(lease_.is_held());
  ASSERT_TRUE(lease_.hold(lease_.renewals()));
  lease_.unhold(since);
  renew();
  EXPECT_TRUE(lease_.is_held()) << "an old unhold() is of no effect";
}

}  // namespace
}  // namespace rockhopper::dag
