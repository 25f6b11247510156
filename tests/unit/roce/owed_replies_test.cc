// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Which ACK or NAK a responder owes: without an engine.
#include "roce/rc/owed_replies.h"

#include <cstdint>
#include <random>

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace rockhopper::test::owed_replies_test {
namespace {

using roce::rc::OwedReplies;
using wire::Aeth;
using wire::NakCode;
using wire::Psn;
using Reply = OwedReplies::Reply;

constexpr Psn kFirst{0xfffffe};  // so that PSNs wrap

class OwedRepliesTest : public ::testing::Test {
 protected:
  OwedRepliesTest() { owed_.reset(kFirst); }

  OwedReplies owed_;
};

TEST_F(OwedRepliesTest, NothingAtFirst) {
  EXPECT_TRUE(owed_.empty());
  EXPECT_FALSE(owed_.owes_ack());
  EXPECT_FALSE(owed_.owes_nak());
  EXPECT_FALSE(owed_.may_wait());
  EXPECT_FALSE(owed_.is_nak_outstanding());
  EXPECT_FALSE(owed_.is_rnr_outstanding());
  EXPECT_FALSE(owed_.is_out_of_credits());
}

TEST_F(OwedRepliesTest, OneAckCoversAllThatIsExecuted) {
  owed_.acknowledge(Reply::ack);
  owed_.acknowledge(Reply::ack);
  EXPECT_TRUE(owed_.owes_ack());
  owed_.on_sent(false);
  EXPECT_TRUE(owed_.empty());
}

TEST_F(OwedRepliesTest, GreaterReplyStays) {
  owed_.acknowledge(Reply::repeated_ack);
  owed_.acknowledge(Reply::ack);
  EXPECT_EQ(owed_.reply(), Reply::repeated_ack);
  owed_.ask_for_missing();
  owed_.acknowledge(Reply::repeated_ack);
  EXPECT_EQ(owed_.reply(), Reply::nak);
}

TEST_F(OwedRepliesTest, AckWaitsOnce) {
  owed_.acknowledge(Reply::ack);
  EXPECT_TRUE(owed_.may_wait());
  EXPECT_TRUE(owed_.may_wait()) << "who asks changes nothing";
  owed_.defer();
  EXPECT_FALSE(owed_.may_wait());
  EXPECT_TRUE(owed_.owes_ack());
  owed_.begin_turn();
  EXPECT_TRUE(owed_.may_wait());
}

TEST_F(OwedRepliesTest, RepetitionsAndNaksDoNotWait) {
  owed_.acknowledge(Reply::repeated_ack);
  EXPECT_FALSE(owed_.may_wait());
  owed_.ask_for_missing();
  EXPECT_FALSE(owed_.may_wait());
}

TEST_F(OwedRepliesTest, AckIsNeedlessOnceAResponseHasSaidMore) {
  owed_.acknowledge(Reply::ack);
  owed_.on_acknowledged(kFirst + 3);
  EXPECT_TRUE(owed_.is_needless(kFirst + 2));
  EXPECT_FALSE(owed_.is_needless(kFirst + 3)) << "the very same may bring credits";
  EXPECT_FALSE(owed_.is_needless(kFirst + 4));
  owed_.drop_ack();
  EXPECT_TRUE(owed_.empty());
}

TEST_F(OwedRepliesTest, RepeatedAckIsNeverNeedless) {
  owed_.on_acknowledged(kFirst + 3);
  owed_.acknowledge(Reply::repeated_ack);
  EXPECT_FALSE(owed_.is_needless(kFirst));
}

TEST_F(OwedRepliesTest, OlderAnswerTakesNothingBack) {
  owed_.acknowledge(Reply::ack);
  owed_.on_acknowledged(kFirst + 3);
  owed_.on_acknowledged(kFirst + 1);  // a READ that was repeated
  EXPECT_TRUE(owed_.is_needless(kFirst + 2));
}

TEST_F(OwedRepliesTest, Clause9_7_5_2_8_NakAsksForTheMissingPacketOnce) {
  owed_.on_dropped(kFirst + 2);
  owed_.ask_for_missing();
  EXPECT_TRUE(owed_.is_nak_outstanding());
  EXPECT_FALSE(owed_.is_rnr_outstanding());
  EXPECT_EQ(owed_.nak_syndrome(), Aeth::nak(NakCode::psn_sequence_error, 0).syndrome);
  owed_.on_sent(false);
  EXPECT_TRUE(owed_.empty());
  EXPECT_TRUE(owed_.is_nak_outstanding()) << "until the packet comes";
  owed_.on_expected(kFirst);
  EXPECT_FALSE(owed_.is_nak_outstanding());
  EXPECT_TRUE(owed_.empty());
}

TEST_F(OwedRepliesTest, NakThatHasNotLeftAsksForWhatWasDroppedBehind) {
  owed_.on_dropped(kFirst + 2);
  owed_.ask_for_missing();
  owed_.on_expected(kFirst);
  EXPECT_TRUE(owed_.owes_nak()) << "what is behind this packet is missing";
  EXPECT_TRUE(owed_.is_nak_outstanding());
  owed_.on_expected(kFirst + 1);
  EXPECT_TRUE(owed_.owes_nak());
  owed_.on_expected(kFirst + 2);
  EXPECT_EQ(owed_.reply(), Reply::ack) << "what the NAK covered";
  EXPECT_FALSE(owed_.is_nak_outstanding());
}

TEST_F(OwedRepliesTest, Clause9_7_5_2_8_RnrNakSaysWhenToComeAgain) {
  owed_.refuse_for_now(12);
  EXPECT_EQ(owed_.nak_syndrome(), Aeth::rnr_nak(12, 0).syndrome);
  EXPECT_TRUE(owed_.is_rnr_outstanding());
  EXPECT_TRUE(owed_.is_nak_outstanding()) << "no other NAK is given";
  owed_.on_sent(false);
  EXPECT_TRUE(owed_.is_rnr_outstanding());
  owed_.on_expected(kFirst);
  EXPECT_FALSE(owed_.is_rnr_outstanding());
  EXPECT_FALSE(owed_.is_nak_outstanding());
}

TEST_F(OwedRepliesTest, RnrNakThatHasNotLeftIsAnAckWhenThePacketIsThere) {
  owed_.on_dropped(kFirst + 5);  // of long ago
  owed_.refuse_for_now(12);
  owed_.on_expected(kFirst);
  EXPECT_EQ(owed_.reply(), Reply::ack);
}

TEST_F(OwedRepliesTest, RefusalSaysWhy) {
  owed_.acknowledge(Reply::ack);
  owed_.refuse(NakCode::remote_access_error);
  EXPECT_EQ(owed_.nak_syndrome(), Aeth::nak(NakCode::remote_access_error, 0).syndrome);
}

TEST_F(OwedRepliesTest, BehindANakAnAckTellsWhatIsHeld) {
  owed_.ask_for_missing();
  owed_.on_sent(true);
  EXPECT_EQ(owed_.reply(), Reply::repeated_ack);
  owed_.on_sent(true);
  EXPECT_TRUE(owed_.empty()) << "that was the one that tells it";
}

TEST_F(OwedRepliesTest, Clause9_7_7_2_4_CreditsAreNewsToAPeerThatHadNone) {
  owed_.on_credits_told(true);
  EXPECT_TRUE(owed_.is_out_of_credits());
  owed_.on_credits_told(false);
  EXPECT_FALSE(owed_.is_out_of_credits());
}

TEST_F(OwedRepliesTest, ForgivenDebtsAreNotPaid) {
  owed_.ask_for_missing();
  owed_.forgive();
  EXPECT_TRUE(owed_.empty());
  EXPECT_TRUE(owed_.is_nak_outstanding());
}

TEST_F(OwedRepliesTest, ResetForgetsTheConnectionBefore) {
  owed_.on_acknowledged(kFirst + 100);
  owed_.on_dropped(kFirst + 100);
  owed_.on_credits_told(true);
  owed_.refuse_for_now(12);
  owed_.reset(kFirst);
  EXPECT_TRUE(owed_.empty());
  EXPECT_FALSE(owed_.is_nak_outstanding());
  EXPECT_FALSE(owed_.is_out_of_credits());
  owed_.acknowledge(Reply::ack);
  EXPECT_FALSE(owed_.is_needless(kFirst));
  owed_.ask_for_missing();
  owed_.on_expected(kFirst);
  EXPECT_EQ(owed_.reply(), Reply::ack) << "nothing was dropped in this connection";
}

TEST_F(OwedRepliesTest, StaysConsistentWhateverComesInWhateverOrder) {
  std::mt19937_64 random(seed());
  Psn expected = kFirst;
  for (int step = 0; step < 100'000; ++step) {
    switch (random() % 8) {
      case 0:
        owed_.acknowledge(random() % 2 == 0 ? Reply::ack : Reply::repeated_ack);
        break;
      case 1:
        if (!owed_.is_rnr_outstanding()) {
          owed_.on_dropped(expected + 1 + static_cast<std::uint32_t>(random() % 8));
          if (!owed_.is_nak_outstanding()) owed_.ask_for_missing();
        }
        break;
      case 2:
        owed_.on_expected(expected);
        expected = expected + 1;
        break;
      case 3:
        owed_.on_expected(expected);
        owed_.refuse_for_now(static_cast<std::uint8_t>(random() % 32));
        break;
      case 4:
        if (!owed_.empty()) owed_.on_sent(random() % 2 == 0);
        break;
      case 5:
        if (owed_.may_wait()) owed_.defer();
        break;
      case 6:
        if (owed_.reply() == Reply::ack) owed_.drop_ack();
        break;
      default:
        owed_.begin_turn();
        if (random() % 16 == 0) owed_.forgive();
        break;
    }
    ASSERT_TRUE(owed_.is_consistent()) << step;
  }
}

#ifndef NDEBUG
using OwedRepliesDeathTest = OwedRepliesTest;

TEST_F(OwedRepliesDeathTest, NothingIsAskedForDuringAnRnrWait) {
  owed_.refuse_for_now(12);
  EXPECT_DEATH(owed_.ask_for_missing(), "rnr_outstanding");
}

TEST_F(OwedRepliesDeathTest, NoNakHasNoSyndrome) {
  EXPECT_DEATH((void)owed_.nak_syndrome(), "owes_nak");
}

TEST_F(OwedRepliesDeathTest, AckWaitsOnlyOnce) {
  owed_.acknowledge(Reply::ack);
  owed_.defer();
  EXPECT_DEATH(owed_.defer(), "may_wait");
}
#endif

}  // namespace
}  // namespace rockhopper::test::owed_replies_test
