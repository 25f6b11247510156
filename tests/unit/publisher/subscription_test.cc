// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The states of a subscription up to what needs an engine: its buffer.
#include "apps/services/publisher/subscription.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace rockhopper::publisher {
namespace {

using State = Subscription::State;

class Ear final : public Listener {
 public:
  void on_message(const Message& /*message*/) override {}
  void on_lost(std::uint64_t /*first*/, std::uint64_t /*last*/) override {}
};

class SubscriptionTest : public ::testing::Test {
 protected:
  void grant() {
    GrantMessage message{.tag = 3, .rkey = roce::MemoryKey{7}, .store = {}};
    message.store.id = 5;
    subscription_.take_grant(message);
  }

  Ear ear_;
  Subscription subscription_{SubscriptionId{3}, "store", {}, ear_};
};

TEST_F(SubscriptionTest, IsToBeAskedForAtFirst) {
  EXPECT_TRUE(subscription_.is(State::wanted));
  EXPECT_TRUE(subscription_.has_listener());
  EXPECT_FALSE(subscription_.awaits_answer());
  EXPECT_EQ(subscription_.number(), 3u);
  EXPECT_EQ(subscription_.reader(), nullptr);
}

TEST_F(SubscriptionTest, HasAKeyWithItsGrant) {
  subscription_.on_asked();
  EXPECT_TRUE(subscription_.awaits_answer());
  grant();
  EXPECT_TRUE(subscription_.has_key());
  EXPECT_EQ(subscription_.rkey(), roce::MemoryKey{7});
  EXPECT_FALSE(subscription_.reads(5)) << "not before it is open";
}

TEST_F(SubscriptionTest, LeftBeforeItIsAskedForItEndsAtOnce) {
  subscription_.leave(true);
  EXPECT_TRUE(subscription_.is(State::ended));
  EXPECT_FALSE(subscription_.has_listener());
  EXPECT_TRUE(subscription_.is_over());
}

// The answer to what has been asked is still to come, and is then given back.
TEST_F(SubscriptionTest, LeftWhileItIsAskedForItWaitsForTheGrant) {
  subscription_.on_asked();
  subscription_.leave(true);
  EXPECT_TRUE(subscription_.is(State::leaving));
  EXPECT_TRUE(subscription_.awaits_answer());
  grant();
  EXPECT_FALSE(subscription_.awaits_answer());
  EXPECT_TRUE(subscription_.has_key());
  subscription_.end();
  EXPECT_TRUE(subscription_.is_over());
}

TEST_F(SubscriptionTest, LeftWithoutAConnectionItEndsAtOnce) {
  subscription_.on_asked();
  subscription_.leave(false);
  EXPECT_TRUE(subscription_.is(State::ended));
}

TEST_F(SubscriptionTest, ARoundOnItsWayKeepsItFromBeingOver) {
  subscription_.set_reading(true);
  subscription_.leave(false);
  EXPECT_FALSE(subscription_.is_over());
  subscription_.set_reading(false);
  EXPECT_TRUE(subscription_.is_over());
}

TEST_F(SubscriptionTest, IsAskedForAnewWithTheNextConnection) {
  subscription_.on_asked();
  grant();
  subscription_.set_reading(true);
  subscription_.on_disconnected();
  EXPECT_TRUE(subscription_.is(State::wanted));
  EXPECT_FALSE(subscription_.has_key());
  EXPECT_FALSE(subscription_.is_reading());
}

TEST_F(SubscriptionTest, WhatIsBeingLeftEndsWithTheConnection) {
  subscription_.on_asked();
  subscription_.leave(true);
  subscription_.on_disconnected();
  EXPECT_TRUE(subscription_.is(State::ended));
}

TEST_F(SubscriptionTest, IsAskedForAnewWhenTheRequestWasFlushed) {
  subscription_.on_asked();
  subscription_.on_flushed();
  EXPECT_TRUE(subscription_.is(State::wanted));
}

TEST_F(SubscriptionTest, WhatIsBeingLeftWithoutAKeyEndsWhenItWasFlushed) {
  subscription_.on_asked();
  subscription_.leave(true);
  subscription_.on_flushed();
  EXPECT_TRUE(subscription_.is(State::ended)) << "there is nothing to be given back";
}

TEST_F(SubscriptionTest, WhatIsBeingLeftWithAKeyIsGivenBackStill) {
  subscription_.on_asked();
  subscription_.leave(true);
  grant();
  subscription_.on_flushed();
  EXPECT_TRUE(subscription_.is(State::leaving));
}

}  // namespace
}  // namespace rockhopper::publisher
