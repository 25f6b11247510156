// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// How many READs and atomics are outstanding, and may be: without an engine.
#include "roce/rc/response_window.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace rockhopper::test {
namespace {

using roce::rc::ResponseWindow;

/// All responses of the oldest request, which take `psns`.
void answer(ResponseWindow& window, std::uint32_t psns) {
  window.on_responses(psns);
  window.on_answered(true);
}

TEST(ResponseWindow, EmptyAtFirst) {
  const ResponseWindow window;
  EXPECT_TRUE(window.empty());
  EXPECT_EQ(window.psns(), 0u);
  EXPECT_TRUE(window.has_room(1, true));
  EXPECT_FALSE(window.has_room(0, true)) << "the peer has no responder resources";
}

TEST(ResponseWindow, Clause9_7_3_NoMoreThanAgreedOnAreOutstanding) {
  ResponseWindow window;
  window.on_sent(3);
  EXPECT_TRUE(window.has_room(2, true));
  window.on_sent(1);
  EXPECT_FALSE(window.has_room(2, true));
  EXPECT_FALSE(window.has_room(2, false));
  EXPECT_EQ(window.psns(), 4u);
  answer(window, 3);
  EXPECT_TRUE(window.has_room(2, true));
  EXPECT_EQ(window.psns(), 1u);
}

TEST(ResponseWindow, FullAtItsOwnLimit) {
  ResponseWindow window;
  for (std::uint32_t i = 0; i < ResponseWindow::kMax; ++i) {
    ASSERT_TRUE(window.has_room(UINT32_MAX, false));
    window.on_sent(1);
  }
  EXPECT_FALSE(window.has_room(UINT32_MAX, false));
}

TEST(ResponseWindow, ResponsesComeOneByOne) {
  ResponseWindow window;
  window.on_sent(1u << 23);
  window.on_responses(1);
  EXPECT_EQ(window.psns(), (1u << 23) - 1);
  EXPECT_FALSE(window.empty());
  answer(window, (1u << 23) - 1);
  EXPECT_TRUE(window.empty());
}

TEST(ResponseWindow, OneAfterResponsesStayedAwayThenTwiceAsManyEachTime) {
  ResponseWindow window;
  window.on_sent(1);
  window.narrow();
  window.forget();
  std::uint32_t most = 1;
  while (most < ResponseWindow::kMax) {
    for (std::uint32_t i = 0; i < most; ++i) {
      ASSERT_TRUE(window.has_room(UINT32_MAX, true)) << i << " of " << most;
      window.on_sent(1);
    }
    ASSERT_FALSE(window.has_room(UINT32_MAX, true)) << most;
    EXPECT_TRUE(window.has_room(UINT32_MAX, false)) << "a scope is not stopped half-way";
    answer(window, 1);
    window.forget();
    most *= 2;
  }
}

TEST(ResponseWindow, NarrowedIsStillWithinWhatWasAgreedOn) {
  ResponseWindow window;
  window.narrow();
  EXPECT_FALSE(window.has_room(0, true));
  window.on_answered(false);
  window.on_answered(false);  // four now
  window.on_sent(1);
  window.on_sent(1);
  EXPECT_FALSE(window.has_room(2, true));
}

TEST(ResponseWindow, AnswerToWhatWasGoingToBeSentAgainCountsAsAnswerOnly) {
  ResponseWindow window;
  window.on_sent(2);
  window.narrow();
  window.forget();
  EXPECT_TRUE(window.empty());
  window.on_answered(false);
  EXPECT_TRUE(window.empty());
  window.on_sent(1);
  EXPECT_TRUE(window.has_room(UINT32_MAX, true)) << "twice as many as one";
}

TEST(ResponseWindow, ResetIsAsNew) {
  ResponseWindow window;
  window.on_sent(2);
  window.narrow();
  window.reset();
  EXPECT_TRUE(window.empty());
  EXPECT_EQ(window.psns(), 0u);
  window.on_sent(1);
  EXPECT_TRUE(window.has_room(2, true));
}

#ifndef NDEBUG
TEST(ResponseWindowDeathTest, ResponsesThatNobodyAskedFor) {
  ResponseWindow window;
  window.on_sent(2);
  EXPECT_DEATH(window.on_responses(3), "psns_");
}

TEST(ResponseWindowDeathTest, AnsweredBeforeItsResponsesHaveCome) {
  ResponseWindow window;
  window.on_sent(2);
  EXPECT_DEATH(window.on_answered(true), "outstanding_ > 0");
}
#endif

}  // namespace
}  // namespace rockhopper::test
