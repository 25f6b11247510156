// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// How many messages either side may have without a reply (AM-22).
#include "apps/services/ami/unanswered.h"

#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

namespace rockhopper::ami {
namespace {

TEST(Unanswered, HasALimit) {
  Unanswered unanswered;
  for (std::size_t i = 0; i < kMaxUnanswered; ++i) {
    ASSERT_TRUE(unanswered.has_room(false));
    unanswered.on_posted(false);
  }
  EXPECT_FALSE(unanswered.has_room(false));
  unanswered.on_ended(false);
  EXPECT_TRUE(unanswered.has_room(false));
}

TEST(Unanswered, CountsWhatIsGoingToBeSent) {
  Unanswered unanswered;
  unanswered.on_posted(false);
  EXPECT_TRUE(unanswered.has_room(false, kMaxUnanswered - 2));
  EXPECT_FALSE(unanswered.has_room(false, kMaxUnanswered - 1));
}

TEST(Unanswered, FewerMayBeAnnounced) {
  Unanswered unanswered;
  for (std::size_t i = 0; i < kMaxAnnounced; ++i) {
    ASSERT_TRUE(unanswered.has_room(true));
    unanswered.on_posted(true);
  }
  EXPECT_FALSE(unanswered.has_room(true));
  EXPECT_TRUE(unanswered.has_room(false)) << "those with their payload may";
  unanswered.on_ended(true);
  EXPECT_TRUE(unanswered.has_room(true));
}

TEST(OwedReplies, AcceptAsManyMessagesAsAPeerMaySend) {
  OwedReplies replies;
  replies.accept(kMaxUnanswered - 1);
  EXPECT_TRUE(replies.accepts(1));
  EXPECT_FALSE(replies.accepts(2));
  replies.accept(1);
  EXPECT_FALSE(replies.accepts(1));
  EXPECT_TRUE(replies.empty()) << "none is known";
}

TEST(OwedReplies, GoInOrder) {
  OwedReplies replies;
  replies.accept(3);
  for (std::uint32_t tag = 1; tag <= 3; ++tag) {
    replies.push({.tag = tag});
  }
  ASSERT_EQ(replies.size(), 3u);
  EXPECT_EQ(replies.at(0).tag, 1u);
  EXPECT_EQ(replies.at(2).tag, 3u);
  replies.pop(2);
  EXPECT_EQ(replies.at(0).tag, 3u);
  EXPECT_EQ(replies.size(), 1u);
}

TEST(OwedReplies, AReplyMakesRoomWhenItIsSent) {
  OwedReplies replies;
  replies.accept(kMaxUnanswered);
  replies.push({.tag = 1});
  EXPECT_FALSE(replies.accepts(1)) << "it is still to be sent";
  replies.pop(1);
  EXPECT_TRUE(replies.accepts(1));
}

TEST(OwedReplies, AreForsakenWithThePeer) {
  OwedReplies replies;
  replies.accept(1);
  replies.push({.tag = 1});
  replies.forsake();
  EXPECT_TRUE(replies.empty());
}

}  // namespace
}  // namespace rockhopper::ami
