// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Every operation of a reliable connection over a dynamic one (DC-9, DC-18).
#include <cstring>

#include <gtest/gtest.h>

#include "tests/unit/dc/dc_pair.h"

namespace rockhopper::test {
namespace {

using roce::PostResult;
using roce::WcStatus;
using roce::WrOpcode;
using ::testing::SizeIs;

class DcOperation : public ::testing::Test {
 protected:
  void expect_success(std::size_t count = 1) {
    EXPECT_EQ(pair_.statuses(count), std::vector(count, WcStatus::success));
  }

  DcPair pair_;
  dc::Dci& dci_ = pair_.make_dci();
  const dc::Dct& dct_ = pair_.make_dct();
};

TEST_F(DcOperation, SendOfSeveralPacketsCompletesAtTheTarget) {
  pair_.post_receive(4000);
  ASSERT_EQ(pair_.post(dci_, dct_, WrOpcode::send_with_imm, 3500, 0, 0,
                       [](auto& wr) { wr.imm_data = 0xfeed; }),
            PostResult::ok);
  expect_success();
  const auto received = pair_.recv_completions();
  ASSERT_THAT(received, SizeIs(1));
  EXPECT_EQ(received[0].byte_len, 3500u);
  EXPECT_EQ(received[0].imm_data, 0xfeedu);
  EXPECT_EQ(received[0].qp_num, dct_.number());
  EXPECT_EQ(std::memcmp(pair_.memory(1) + 32768, pair_.memory(0), 3500), 0);
}

TEST_F(DcOperation, WriteWithImmediateTakesAReceive) {
  pair_.post_receive();
  ASSERT_EQ(pair_.post(dci_, dct_, WrOpcode::rdma_write_with_imm, 2000, 100, 0,
                       [](auto& wr) { wr.imm_data = 5; }),
            PostResult::ok);
  expect_success();
  EXPECT_EQ(std::memcmp(pair_.memory(1) + 100, pair_.memory(0) + 100, 2000), 0);
  const auto received = pair_.recv_completions();
  ASSERT_THAT(received, SizeIs(1));
  EXPECT_EQ(received[0].opcode, roce::WcOpcode::recv_rdma_with_imm);
}

TEST_F(DcOperation, ReadOfSeveralPackets) {
  for (unsigned i = 0; i < 5000; ++i) {
    pair_.memory(1)[i] = static_cast<std::uint8_t>(i * 13);
  }
  ASSERT_EQ(pair_.post(dci_, dct_, WrOpcode::rdma_read, 5000), PostResult::ok);
  expect_success();
  EXPECT_EQ(std::memcmp(pair_.memory(0), pair_.memory(1), 5000), 0);
}

TEST_F(DcOperation, Atomics) {
  pair_.set_word(1, 64, 40);
  ASSERT_EQ(pair_.post(dci_, dct_, WrOpcode::atomic_fetch_and_add, 8, 64, 0,
                       [](auto& wr) { wr.compare_add = 2; }),
            PostResult::ok);
  expect_success();
  EXPECT_EQ(pair_.word(0, 64), 40u);
  EXPECT_EQ(pair_.word(1, 64), 42u);
  ASSERT_EQ(pair_.post(dci_, dct_, WrOpcode::atomic_cmp_and_swp, 8, 64, 0,
                       [](auto& wr) {
                         wr.compare_add = 42;
                         wr.swap = 99;
                       }),
            PostResult::ok);
  expect_success();
  EXPECT_EQ(pair_.word(0, 64), 42u);
  EXPECT_EQ(pair_.word(1, 64), 99u);
}

TEST_F(DcOperation, AtomicWriteAndFlush) {
  pair_.set_word(0, 128, 0x1234);
  ASSERT_EQ(pair_.post(dci_, dct_, WrOpcode::atomic_write, 8, 128), PostResult::ok);
  ASSERT_EQ(pair_.post(dci_, dct_, WrOpcode::flush, 0, 128, 0,
                       [](auto& wr) {
                         wr.sg_list = {};
                         wr.flush.length = 8;
                       }),
            PostResult::ok);
  expect_success(2);
  EXPECT_EQ(pair_.word(1, 128), 0x1234u);
}

TEST_F(DcOperation, SendWithInvalidate) {
  auto region = pair_.engine(1).register_memory(pair_.dct_init().pd, pair_.memory(1), 64,
                                                roce::kAccessAll | roce::kAccessRemoteInvalidate);
  ASSERT_TRUE(region);
  pair_.post_receive();
  ASSERT_EQ(pair_.post(dci_, dct_, WrOpcode::send_with_inv, 32, 0, 0,
                       [&](auto& wr) { wr.invalidate_rkey = region->key; }),
            PostResult::ok);
  expect_success();
  const auto received = pair_.recv_completions();
  ASSERT_THAT(received, SizeIs(1));
  EXPECT_EQ(received[0].invalidated_rkey, region->key);
}

TEST_F(DcOperation, InlineData) {
  ASSERT_EQ(pair_.post(dci_, dct_, WrOpcode::rdma_write, 32, 256, 0,
                       [](auto& wr) { wr.send_flags = roce::kSendInline; }),
            PostResult::ok);
  expect_success();
  EXPECT_EQ(std::memcmp(pair_.memory(1) + 256, pair_.memory(0) + 256, 32), 0);
}

/// Requests of different kinds to two targets in turns keep their order.
TEST_F(DcOperation, OrderOverTargets) {
  const dc::Dct& other = pair_.make_dct();
  pair_.set_word(1, 64, 0);
  for (unsigned i = 0; i < 6; ++i) {
    ASSERT_EQ(pair_.post(dci_, i % 2 == 0 ? dct_ : other, WrOpcode::atomic_fetch_and_add, 8, 64, 0,
                         [i](auto& wr) {
                           wr.wr_id = i;
                           wr.compare_add = 1;
                         }),
              PostResult::ok);
  }
  ASSERT_TRUE(pair_.run_until([&] { return dci_.send_queue_depth() == 0; }));
  const auto completions = pair_.send_completions();
  ASSERT_THAT(completions, SizeIs(6));
  for (unsigned i = 0; i < 6; ++i) {
    EXPECT_EQ(completions[i].wr_id, i);
    EXPECT_EQ(completions[i].qp_num, dci_.number());
  }
  EXPECT_EQ(pair_.word(0, 64), 5u) << "the last one saw those before it";
}

}  // namespace
}  // namespace rockhopper::test
