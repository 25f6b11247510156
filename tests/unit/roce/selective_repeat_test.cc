// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Which packets are lost, and which need not be sent again: without an engine. What queue pairs do
// with it is in loss_recovery_test.cc.
#include "roce/recovery/selective_repeat.h"

#include <cstdint>
#include <initializer_list>

#include <gtest/gtest.h>

namespace rockhopper::test::selective_repeat_test {
namespace {

using roce::SelectiveRepeat;
using wire::Psn;
using Reason = SelectiveRepeat::Reason;

constexpr Psn kFirst{0xfffffe};  ///< PSNs go around soon
constexpr std::uint32_t kReordering = 3;

class SelectiveRepeatTest : public ::testing::Test {
 protected:
  void send(std::uint32_t first, std::uint32_t count, bool again = false) {
    for (std::uint32_t i = 0; i < count; ++i) {
      repeat_.on_sent(kFirst + (first + i), again);
    }
  }
  /// The peer misses packet `missing` and holds those in `held`. Returns what that means.
  bool acknowledge(std::uint32_t missing, std::initializer_list<std::uint32_t> held) {
    wire::Saeth saeth{};
    for (const std::uint32_t packet : held) {
      saeth.set(packet - missing - 1);
    }
    return repeat_.on_selective_ack(kFirst + missing, saeth);
  }
  bool passes(std::uint32_t packet) const { return repeat_.passes(kFirst + packet); }

  roce::HeldPacketBudget budget_{.limit = 1024};
  SelectiveRepeat repeat_{{.window = 128, .reordering = kReordering}, budget_};
};

TEST_F(SelectiveRepeatTest, PacketIsLostOnceOneHasArrivedThatWasSentThreeLater) {
  send(0, 8);
  EXPECT_FALSE(acknowledge(0, {1, 2}));
  EXPECT_TRUE(acknowledge(0, {1, 2, 3}));
  repeat_.on_going_back(Reason::lost, kFirst);
  EXPECT_FALSE(repeat_.repeats_everything());
  EXPECT_FALSE(passes(0)) << "it is lost";
  EXPECT_TRUE(passes(1)) << "the peer holds it";
  EXPECT_TRUE(passes(4)) << "it may still arrive";
}

TEST_F(SelectiveRepeatTest, AllThatIsNotHeldIsRepeatedWhenEverythingIs) {
  send(0, 8);
  (void)acknowledge(0, {2, 3});
  repeat_.on_going_back(Reason::everything, kFirst);
  EXPECT_TRUE(repeat_.repeats_everything());
  for (std::uint32_t packet = 0; packet < 8; ++packet) {
    EXPECT_EQ(passes(packet), packet == 2 || packet == 3) << packet;
  }
}

TEST_F(SelectiveRepeatTest, PacketThatWasSentTwiceIsNoEvidence) {
  send(0, 5);
  send(1, 4, true);
  EXPECT_FALSE(acknowledge(0, {1, 2, 3, 4})) << "which of the two has arrived is not known";
}

TEST_F(SelectiveRepeatTest, WhatIsAcknowledgedMovesTheMissingPacketOn) {
  send(0, 8);
  EXPECT_TRUE(acknowledge(0, {1, 2, 3}));
  repeat_.on_received_before(kFirst + 4);
  EXPECT_FALSE(acknowledge(0, {1, 2, 3})) << "an old one";
  EXPECT_FALSE(acknowledge(4, {5, 6}));
  EXPECT_TRUE(acknowledge(4, {5, 6, 7}));
}

TEST_F(SelectiveRepeatTest, ResponseIsLostWhenItHasBeenSkippedThreeTimes) {
  EXPECT_FALSE(repeat_.on_response_skipped(kFirst));
  EXPECT_FALSE(repeat_.on_response_skipped(kFirst));
  EXPECT_FALSE(repeat_.on_response_skipped(kFirst + 1)) << "another one";
  EXPECT_FALSE(repeat_.on_response_skipped(kFirst + 1));
  EXPECT_TRUE(repeat_.on_response_skipped(kFirst + 1));
}

TEST_F(SelectiveRepeatTest, OnlyTheRequestOfALostResponseIsRepeated) {
  send(0, 4);
  repeat_.on_going_back(Reason::response, kFirst);
  EXPECT_FALSE(passes(0));
  EXPECT_TRUE(passes(1));
  send(0, 1, true);
  EXPECT_TRUE(passes(0)) << "once";
}

TEST_F(SelectiveRepeatTest, ResetForgetsWhatWasSentAndHeld) {
  send(0, 8);
  EXPECT_TRUE(acknowledge(0, {1, 2, 3}));
  repeat_.reset();
  EXPECT_TRUE(repeat_.repeats_everything());
  send(0, 3);
  EXPECT_FALSE(acknowledge(0, {1, 2}));
  repeat_.on_going_back(Reason::everything, kFirst);
  EXPECT_FALSE(passes(3)) << "was held before";
}

}  // namespace
}  // namespace rockhopper::test::selective_repeat_test
