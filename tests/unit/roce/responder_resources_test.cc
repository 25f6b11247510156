// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What READs and atomics owe, and owe again: without an engine.
#include "roce/rc/responder_resources.h"

#include <cstdint>
#include <random>

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace rockhopper::test::responder_resources_test {
namespace {

using roce::rc::ResponderResources;
using Resource = ResponderResources::Resource;
using Kind = Resource::Kind;
using wire::Psn;

constexpr Psn kFirst{0xfffffe};  // so that PSNs wrap

class ResponderResourcesTest : public ::testing::Test {
 protected:
  ResponderResourcesTest() { ring_.set_limit(3); }

  /// Makes a request that owes `psns` responses, behind those before it.
  void put(std::uint32_t psns, Kind kind = Kind::read) {
    ring_.put({.first_psn = next_, .psn_count = psns, .kind = kind});
    next_ = next_ + psns;
  }
  void answer(std::uint32_t packets) {
    for (std::uint32_t i = 0; i < packets; ++i) {
      (void)ring_.on_sent();
    }
  }

  ResponderResources ring_;
  Psn next_ = kFirst;
};

TEST_F(ResponderResourcesTest, EmptyAtFirst) {
  EXPECT_TRUE(ring_.empty());
  EXPECT_FALSE(ring_.owes());
  EXPECT_FALSE(ring_.is_full());
  EXPECT_TRUE(ring_.has_place());
  EXPECT_EQ(ring_.find(kFirst), nullptr);
}

TEST_F(ResponderResourcesTest, NoneMayBeAskedForWhereTheLimitIsZero) {
  ring_.set_limit(0);
  EXPECT_FALSE(ring_.has_place());
}

TEST_F(ResponderResourcesTest, AnswersLeaveInPsnOrder) {
  put(2);
  put(1, Kind::atomic);
  EXPECT_EQ(ring_.owing().first_psn, kFirst);
  EXPECT_EQ(ring_.on_sent().next, 1u);
  EXPECT_EQ(ring_.owing().first_psn, kFirst) << "its last packet is still to be sent";
  EXPECT_FALSE(ring_.on_sent().owes());
  EXPECT_EQ(ring_.owing().first_psn, kFirst + 2);
  answer(1);
  EXPECT_FALSE(ring_.owes());
  EXPECT_FALSE(ring_.empty()) << "they stay for duplicates";
}

TEST_F(ResponderResourcesTest, OneAnswerForALockRequestWhateverPsnsItTakes) {
  put(5, Kind::lock);
  EXPECT_FALSE(ring_.on_sent().owes());
  EXPECT_FALSE(ring_.owes());
}

TEST_F(ResponderResourcesTest, PlaceOfTheOldestOnceItIsAnswered) {
  put(1);
  put(1);
  put(1);
  EXPECT_TRUE(ring_.is_full());
  EXPECT_FALSE(ring_.has_place());
  answer(1);
  EXPECT_TRUE(ring_.has_place());
  EXPECT_EQ(ring_.drop_oldest().first_psn, kFirst);
  EXPECT_FALSE(ring_.is_full());
  put(1);
  EXPECT_EQ(ring_.find(kFirst), nullptr);
  EXPECT_EQ(ring_.owing().first_psn, kFirst + 1);
}

TEST_F(ResponderResourcesTest, RepetitionOfTheOldestGoesWithIt) {
  put(2);
  put(1);
  put(1);
  answer(4);
  ring_.repeat(*ring_.find(kFirst), 0, 2);
  EXPECT_TRUE(ring_.has_place()) << "nobody waits for it";
  (void)ring_.drop_oldest();
  EXPECT_FALSE(ring_.owes());
}

TEST_F(ResponderResourcesTest, FoundByEachOfItsPsns) {
  put(3);
  put(1);
  EXPECT_EQ(ring_.find(kFirst - 1), nullptr);
  EXPECT_EQ(ring_.find(kFirst)->first_psn, kFirst);
  EXPECT_EQ(ring_.find(Psn{0})->first_psn, kFirst) << "over the wrap";
  EXPECT_EQ(ring_.find(Psn{1})->first_psn, Psn{1});
  EXPECT_EQ(ring_.find(Psn{2}), nullptr);
  EXPECT_EQ(ring_.find(kFirst + (1u << 23)), nullptr);
}

TEST_F(ResponderResourcesTest, Clause9_7_5_1_4_ReadIsRepeatedFromTheMiddle) {
  put(4);
  put(1);
  answer(5);
  ring_.repeat(*ring_.find(kFirst), 2, 2);
  EXPECT_EQ(ring_.owing().next, 2u);
  EXPECT_EQ(ring_.owing().start, 2u);
  EXPECT_TRUE(ring_.owing().is_answered()) << "it has been, once";
  answer(2);
  EXPECT_FALSE(ring_.owes()) << "what is behind it is not repeated";
}

TEST_F(ResponderResourcesTest, Clause9_4_4_InterruptedAnswerStartsAnew) {
  put(1, Kind::atomic);
  put(4);
  answer(3);  // two of the READ's
  ring_.repeat(*ring_.find(kFirst), 0, 1);
  EXPECT_EQ(ring_.owing().first_psn, kFirst);
  answer(1);
  EXPECT_EQ(ring_.owing().first_psn, kFirst + 1);
  EXPECT_EQ(ring_.owing().next, 0u);
}

TEST_F(ResponderResourcesTest, WhatIsStillToBeSentIsNotSetBack) {
  put(4);
  answer(1);
  ring_.repeat(*ring_.find(kFirst), 3, 1);
  EXPECT_EQ(ring_.owing().next, 1u);
}

TEST_F(ResponderResourcesTest, PartsAreRepeatedAlone) {
  put(8);
  answer(8);
  ring_.repeat(*ring_.find(kFirst), 3, 2);
  EXPECT_EQ(ring_.owing().start, 3u);
  EXPECT_EQ(ring_.on_sent().next, 4u);
  EXPECT_FALSE(ring_.on_sent().owes());
  ring_.repeat(*ring_.find(kFirst), 6, 1);
  EXPECT_EQ(ring_.owing().next, 6u) << "behind the part before";
  EXPECT_FALSE(ring_.on_sent().owes());
}

/// Requesters that retransmit selectively may miss several; each answer is what was asked for.
TEST_F(ResponderResourcesTest, TwoPartsAreTwoAnswersAndMoreBecomeOne) {
  const auto owed = [this] {
    const auto& owing = ring_.owing();
    return std::pair(owing.next, owing.end);
  };
  put(10);
  put(1);
  answer(11);
  auto& read = *ring_.find(kFirst);
  ring_.repeat(read, 3, 1);
  ring_.repeat(read, 5, 2);
  EXPECT_EQ(owed(), std::pair(3u, 4u));
  (void)ring_.on_sent();
  EXPECT_EQ(owed(), std::pair(5u, 7u));
  ring_.repeat(read, 7, 1);
  ring_.repeat(read, 9, 1);
  EXPECT_EQ(owed(), std::pair(5u, 7u)) << "what is owed first is not changed";
  (void)ring_.on_sent();
  (void)ring_.on_sent();
  EXPECT_EQ(owed(), std::pair(7u, 10u)) << "a third part: what lies between goes too";
  for (int i = 0; i < 3; ++i) {
    (void)ring_.on_sent();
  }
  EXPECT_FALSE(ring_.owes());
}

TEST_F(ResponderResourcesTest, APartBeforeTheOneThatIsOwedIsOneWithIt) {
  put(10);
  answer(10);
  auto& read = *ring_.find(kFirst);
  ring_.repeat(read, 3, 2);
  ring_.repeat(read, 6, 2);
  ring_.repeat(read, 1, 6);
  EXPECT_EQ(ring_.owing().next, 1u);
  EXPECT_EQ(ring_.owing().end, 7u);
  for (int i = 0; i < 6; ++i) {
    (void)ring_.on_sent();
  }
  EXPECT_EQ(ring_.owing().next, 7u) << "no packet twice";
  EXPECT_EQ(ring_.owing().end, 8u);
  ring_.forgive();
  EXPECT_FALSE(ring_.owes());
  ring_.repeat(read, 0, 1);
  EXPECT_FALSE(ring_.on_sent().owes());
}

// The rest of an answer that is not complete is nobody's repetition.
TEST_F(ResponderResourcesTest, APartDoesNotEndAnAnswerThatIsOnItsWay) {
  put(8);
  answer(4);
  ring_.repeat(*ring_.find(kFirst), 1, 1);
  EXPECT_EQ(ring_.owing().next, 1u);
  EXPECT_EQ(ring_.owing().end, 8u);
}

TEST_F(ResponderResourcesTest, SkipLeavesTheRest) {
  put(4);
  put(1);
  ring_.skip();
  EXPECT_EQ(ring_.owing().first_psn, kFirst + 4);
}

TEST_F(ResponderResourcesTest, ForgivenDebtsAreNotPaid) {
  put(4);
  put(1);
  ring_.forgive();
  EXPECT_FALSE(ring_.owes());
  EXPECT_FALSE(ring_.empty());
}

TEST_F(ResponderResourcesTest, AcknowledgementStopsBeforeResponsesAtTheEnd) {
  EXPECT_EQ(ring_.before_responses(kFirst - 1), kFirst - 1);
  put(2);
  put(1, Kind::atomic);
  EXPECT_EQ(ring_.before_responses(next_ - 1), kFirst - 1);
  next_ = next_ + 1;  // a WRITE
  EXPECT_EQ(ring_.before_responses(next_ - 1), kFirst + 3);
  put(1);
  EXPECT_EQ(ring_.before_responses(next_ - 1), kFirst + 3);
}

TEST_F(ResponderResourcesTest, StaysConsistentWhateverComesInWhateverOrder) {
  std::mt19937_64 random(seed());
  for (int step = 0; step < 100'000; ++step) {
    switch (random() % 4) {
      case 0:
        if (ring_.has_place()) {
          if (ring_.is_full()) (void)ring_.drop_oldest();
          put(1 + static_cast<std::uint32_t>(random() % 4),
              random() % 4 == 0 ? Kind::lock : Kind::read);
        }
        break;
      case 1:
        if (ring_.owes()) answer(1);
        break;
      case 2:
        if (Resource* found = ring_.find(next_ - static_cast<std::uint32_t>(random() % 8))) {
          // Only READs have parts.
          const bool is_read = found->kind == Kind::read;
          const auto index = is_read ? static_cast<std::uint32_t>(random()) % found->psn_count : 0;
          const std::uint32_t rest = found->psn_count - index;
          ring_.repeat(*found, index,
                       is_read ? 1 + static_cast<std::uint32_t>(random()) % rest : rest);
        }
        break;
      default:
        if (ring_.owes() && random() % 4 == 0) ring_.skip();
        if (random() % 64 == 0) ring_.forgive();
        break;
    }
    ASSERT_TRUE(ring_.is_consistent()) << step;
  }
}

#ifndef NDEBUG
using ResponderResourcesDeathTest = ResponderResourcesTest;

TEST_F(ResponderResourcesDeathTest, NoMoreThanTheLimit) {
  put(1);
  put(1);
  put(1);
  EXPECT_DEATH(put(1), "is_full");
}

TEST_F(ResponderResourcesDeathTest, NothingIsOwed) { EXPECT_DEATH((void)ring_.on_sent(), "owes"); }
#endif

}  // namespace
}  // namespace rockhopper::test::responder_resources_test
