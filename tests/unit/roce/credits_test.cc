// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// End-to-end flow control of a requester: without an engine.
#include "roce/rc/credits.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace rockhopper::test::credits_test {
namespace {

using roce::SendWqe;
using roce::WrOpcode;
using roce::rc::Credits;
using wire::Aeth;

constexpr std::uint32_t kHalf = 1u << 23;
// Credit codes 0 and 1 stand for as many receive requests, 2 for two, 3 for three.
constexpr std::uint8_t kNone = 0;
constexpr std::uint8_t kTwo = 2;

SendWqe request(WrOpcode opcode, std::uint32_t ssn = 0) {
  SendWqe wqe{};
  wqe.opcode = opcode;
  wqe.ssn = ssn;
  return wqe;
}
SendWqe send(std::uint32_t ssn) { return request(WrOpcode::send, ssn); }

TEST(Credits, RequestsAreNumberedFromOneOn) {
  Credits credits;
  SendWqe first = request(WrOpcode::send);
  SendWqe second = request(WrOpcode::rdma_read);
  credits.number(first);
  credits.number(second);
  EXPECT_EQ(first.ssn, 1u);
  EXPECT_EQ(second.ssn, 2u);
  credits.reset();
  credits.number(second);
  EXPECT_EQ(second.ssn, 1u);
}

TEST(Credits, NumbersWrapAt24Bits) {
  Credits credits;
  SendWqe wqe = request(WrOpcode::send);
  for (std::uint32_t i = 1; i <= wire::kMask24; ++i) {
    credits.number(wqe);
  }
  EXPECT_EQ(wqe.ssn, wire::kMask24);
  credits.number(wqe);
  EXPECT_EQ(wqe.ssn, 0u);
}

TEST(Credits, NothingIsLimitedUntilThePeerHasSaidSomething) {
  const Credits credits;
  EXPECT_FALSE(credits.is_limited(send(1)));
  EXPECT_TRUE(credits.allows(send(1), 0, 100));
}

TEST(Credits, Clause9_7_7_2_CountFromTheMsnOn) {
  Credits credits;
  EXPECT_TRUE(credits.take(Aeth::ack(kTwo, 5)));
  EXPECT_FALSE(credits.is_limited(send(7)));
  EXPECT_TRUE(credits.is_limited(send(8)));
  EXPECT_TRUE(credits.take(Aeth::ack(kNone, 8)));
  EXPECT_FALSE(credits.is_limited(send(8)));
  EXPECT_TRUE(credits.is_limited(send(9)));
}

TEST(Credits, Clause9_7_7_2_Code31IsWithoutLimit) {
  Credits credits;
  ASSERT_TRUE(credits.take(Aeth::ack(kNone, 0)));
  EXPECT_FALSE(credits.take(Aeth::ack(wire::kCreditCodeUnlimited, 0)));
  EXPECT_FALSE(credits.is_limited(send(1)));
}

TEST(Credits, Clause9_7_7_2_OnlyWhatTakesAReceiveRequestIsLimited) {
  Credits credits;
  ASSERT_TRUE(credits.take(Aeth::ack(kNone, 0)));
  EXPECT_TRUE(credits.is_limited(request(WrOpcode::send, 1)));
  EXPECT_TRUE(credits.is_limited(request(WrOpcode::rdma_write_with_imm, 1)));
  EXPECT_FALSE(credits.is_limited(request(WrOpcode::rdma_write, 1)));
  EXPECT_FALSE(credits.is_limited(request(WrOpcode::rdma_read, 1)));
}

TEST(Credits, LimitWrapsWithTheNumbers) {
  Credits credits;
  ASSERT_TRUE(credits.take(Aeth::ack(kTwo, wire::kMask24)));
  EXPECT_FALSE(credits.is_limited(send(wire::kMask24)));
  EXPECT_FALSE(credits.is_limited(send(1)));
  EXPECT_TRUE(credits.is_limited(send(2)));
}

TEST(Credits, HalfTheCircleAheadIsBehind) {
  Credits credits;
  ASSERT_TRUE(credits.take(Aeth::ack(kNone, 10)));
  EXPECT_TRUE(credits.is_limited(send(10 + kHalf - 1)));
  EXPECT_FALSE(credits.is_limited(send(10 + kHalf)));
}

TEST(Credits, Clause9_7_7_2_ProbeGoesAloneAndTheRestAfterItsAcknowledgement) {
  Credits credits;
  ASSERT_TRUE(credits.take(Aeth::ack(kNone, 0)));
  const SendWqe limited = send(1);
  EXPECT_FALSE(credits.allows(limited, 0, 1));
  EXPECT_TRUE(credits.allows(limited, 0, 0));
  credits.on_sent(limited, 0);
  EXPECT_FALSE(credits.allows(limited, 1, 1));
  credits.end_probe();
  EXPECT_TRUE(credits.allows(limited, 1, 1));
  credits.on_sent(limited, 1);
  EXPECT_TRUE(credits.allows(limited, 2, 2)) << "a message that goes on is no probe";
}

TEST(Credits, ProbeIsOverWhenCreditsCome) {
  Credits credits;
  ASSERT_TRUE(credits.take(Aeth::ack(kNone, 0)));
  credits.on_sent(send(1), 0);
  ASSERT_TRUE(credits.take(Aeth::ack(kTwo, 0)));
  EXPECT_TRUE(credits.allows(send(1), 1, 1));
}

TEST(Credits, ResetForgetsLimitAndProbe) {
  Credits credits;
  ASSERT_TRUE(credits.take(Aeth::ack(kNone, 0)));
  credits.on_sent(send(1), 0);
  credits.reset();
  EXPECT_TRUE(credits.allows(send(1), 0, 5));
  ASSERT_TRUE(credits.take(Aeth::ack(kNone, 0)));
  EXPECT_TRUE(credits.allows(send(1), 1, 5));
}

TEST(Credits, OnlyThe24BitsOfAnMsnCount) {
  Credits credits;
  Aeth aeth = Aeth::ack(kNone, 0);
  aeth.msn = wire::kMask24 + 5;
  EXPECT_TRUE(credits.take(aeth));
  EXPECT_FALSE(credits.is_limited(send(4)));
  EXPECT_TRUE(credits.is_limited(send(5)));
}

}  // namespace
}  // namespace rockhopper::test::credits_test
