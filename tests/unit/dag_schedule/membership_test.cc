// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Whether a worker takes part, from joining to leaving or being lost.
#include "apps/services/dag/schedule/membership.h"

#include <optional>

#include <gtest/gtest.h>

namespace rockhopper::dag {
namespace {

using State = Membership::State;

Membership joined() {
  Membership membership;
  membership.on_asked_to_join();
  membership.on_joined();
  return membership;
}

TEST(Membership, TakesNodesOnceTheHomeHasAnswered) {
  Membership membership;
  EXPECT_EQ(membership.state(), State::outside);
  EXPECT_FALSE(membership.takes_nodes());
  membership.on_asked_to_join();
  EXPECT_TRUE(membership.awaits_answer());
  EXPECT_FALSE(membership.takes_nodes());
  membership.on_joined();
  EXPECT_FALSE(membership.awaits_answer());
  EXPECT_TRUE(membership.takes_nodes());
  EXPECT_FALSE(membership.has_stopped());
}

TEST(Membership, TakesNoMoreWhileDraining) {
  Membership membership = joined();
  membership.drain();
  EXPECT_FALSE(membership.takes_nodes());
  EXPECT_FALSE(membership.has_stopped()) << "what it has goes on";
}

TEST(Membership, LeavesWhenTheHomeHasAnswered) {
  Membership membership = joined();
  EXPECT_TRUE(membership.leave());
  EXPECT_FALSE(membership.leave()) << "it does already";
  EXPECT_TRUE(membership.has_stopped());
  EXPECT_TRUE(membership.is_to_ask_to_leave());
  membership.on_asked_to_leave();
  EXPECT_FALSE(membership.is_to_ask_to_leave()) << "once is enough";
  EXPECT_FALSE(membership.is_over());
  membership.on_left();
  EXPECT_TRUE(membership.is_over());
  EXPECT_FALSE(membership.is_lost());
  EXPECT_FALSE(membership.leave());
}

TEST(Membership, WaitsToJoinBeforeItAsksToLeave) {
  Membership membership;
  membership.on_asked_to_join();
  EXPECT_TRUE(membership.leave());
  EXPECT_FALSE(membership.is_to_ask_to_leave());
  membership.on_joined();
  EXPECT_EQ(membership.state(), State::leaving);
  EXPECT_TRUE(membership.is_to_ask_to_leave());
}

TEST(Membership, TellsOnceWhyItIsLost) {
  Membership membership = joined();
  EXPECT_FALSE(membership.has_to_tell());
  membership.lose(Status::damaged);
  membership.lose(Status::unreachable);
  EXPECT_TRUE(membership.is_lost());
  EXPECT_TRUE(membership.has_stopped());
  EXPECT_TRUE(membership.is_over());
  EXPECT_TRUE(membership.has_to_tell());
  EXPECT_EQ(membership.take_reason(), Status::damaged) << "the first reason counts";
  EXPECT_FALSE(membership.has_to_tell());
  EXPECT_EQ(membership.take_reason(), std::nullopt);
}

TEST(Membership, IsLostWhateverItDoes) {
  for (const bool leaves : {false, true}) {
    Membership membership = joined();
    if (leaves) {
      EXPECT_TRUE(membership.leave());
      membership.on_asked_to_leave();
    }
    membership.lose(Status::unreachable);
    membership.on_left();
    membership.on_joined();
    EXPECT_TRUE(membership.is_lost());
    EXPECT_FALSE(membership.takes_nodes());
    EXPECT_FALSE(membership.leave());
  }
}

}  // namespace
}  // namespace rockhopper::dag
