// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The message that a responder is in the middle of: without an engine.
#include "roce/message_progress.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace rockhopper::test::message_progress_test {
namespace {

using roce::MessageProgress;
using wire::Opcode;
using Kind = MessageProgress::Kind;

constexpr wire::Reth kReth{.va = 0x1000, .rkey = 7, .length = 100};

class MessageProgressTest : public ::testing::Test {
 protected:
  [[nodiscard]] bool admits(Opcode opcode) const { return message_.admits(wire::info(opcode)); }

  MessageProgress message_;
};

TEST_F(MessageProgressTest, NoneAtFirst) {
  EXPECT_FALSE(message_.is_under_way());
  EXPECT_EQ(message_.kind(), Kind::none);
}

TEST_F(MessageProgressTest, Clause9_7_4_1_5_WithoutAMessageOneBegins) {
  EXPECT_TRUE(admits(Opcode::rc_send_first));
  EXPECT_TRUE(admits(Opcode::rc_send_only));
  EXPECT_TRUE(admits(Opcode::rc_rdma_write_only_with_immediate));
  EXPECT_TRUE(admits(Opcode::rc_rdma_read_request));
  EXPECT_TRUE(admits(Opcode::rc_fetch_add));
  EXPECT_FALSE(admits(Opcode::rc_send_middle));
  EXPECT_FALSE(admits(Opcode::rc_rdma_write_last));
}

TEST_F(MessageProgressTest, Clause9_7_4_1_5_SendGoesOnWithASend) {
  message_.begin_send();
  EXPECT_TRUE(admits(Opcode::rc_send_middle));
  EXPECT_TRUE(admits(Opcode::rc_send_last_with_invalidate));
  EXPECT_FALSE(admits(Opcode::rc_send_first));
  EXPECT_FALSE(admits(Opcode::rc_send_only));
  EXPECT_FALSE(admits(Opcode::rc_rdma_write_middle));
  EXPECT_FALSE(admits(Opcode::rc_rdma_read_request));
}

TEST_F(MessageProgressTest, Clause9_7_4_1_5_WriteGoesOnWithAWrite) {
  message_.begin_write(kReth);
  EXPECT_TRUE(admits(Opcode::rc_rdma_write_middle));
  EXPECT_TRUE(admits(Opcode::rc_rdma_write_last_with_immediate));
  EXPECT_FALSE(admits(Opcode::rc_rdma_write_only));
  EXPECT_FALSE(admits(Opcode::rc_send_last));
  EXPECT_FALSE(admits(Opcode::rc_compare_swap));
}

TEST_F(MessageProgressTest, BytesAreCounted) {
  message_.begin_send();
  EXPECT_EQ(message_.received(), 0u);
  message_.receive(4096);
  message_.receive(10);
  EXPECT_EQ(message_.received(), 4106u);
}

TEST_F(MessageProgressTest, MoreThanFourGigabytesAreCounted) {
  message_.begin_send();
  message_.receive(UINT32_MAX);
  message_.receive(UINT32_MAX);
  EXPECT_EQ(message_.received(), std::uint64_t{UINT32_MAX} * 2);
}

TEST_F(MessageProgressTest, WriteRemembersItsMemory) {
  message_.begin_write(kReth);
  message_.receive(100);
  EXPECT_EQ(message_.write(), kReth);
  EXPECT_EQ(message_.received(), kReth.length);
}

TEST_F(MessageProgressTest, EndMakesWayForTheNext) {
  message_.begin_write(kReth);
  message_.receive(50);
  message_.end();
  EXPECT_FALSE(message_.is_under_way());
  message_.begin_send();
  EXPECT_EQ(message_.received(), 0u);
}

TEST_F(MessageProgressTest, Clause9_8_2_2_OfADroppedMessageNothingIsAdmitted) {
  message_.begin_send();
  message_.drop();
  EXPECT_FALSE(message_.is_under_way());
  EXPECT_FALSE(admits(Opcode::rc_send_middle));
  EXPECT_FALSE(admits(Opcode::rc_send_first)) << "the responder ends it first";
  message_.end();
  EXPECT_TRUE(admits(Opcode::rc_send_first));
}

#ifndef NDEBUG
using MessageProgressDeathTest = MessageProgressTest;

TEST_F(MessageProgressDeathTest, OneMessageAtATime) {
  message_.begin_send();
  EXPECT_DEATH(message_.begin_write(kReth), "is_under_way");
}

TEST_F(MessageProgressDeathTest, WriteIsNoLongerThanItSaid) {
  message_.begin_write(kReth);
  message_.receive(kReth.length);
  EXPECT_DEATH(message_.receive(1), "length");
}

TEST_F(MessageProgressDeathTest, SendNamesNoMemory) {
  message_.begin_send();
  EXPECT_DEATH((void)message_.write(), "write");
}
#endif

}  // namespace
}  // namespace rockhopper::test::message_progress_test
