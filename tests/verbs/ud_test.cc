// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Datagrams, and address handles for their answers.
#include <cerrno>
#include <cstring>

#include <gtest/gtest.h>

#include "tests/verbs/rig.h"

namespace rockhopper::test {
namespace {

constexpr std::uint32_t kGrh = 40;
constexpr std::uint32_t kGroupQpn = 0xffffff;

class UdVerbs : public ::testing::Test {
 protected:
  UdVerbs() {
    bring_up(qp_, 0);
    bring_up(peer_, 0);
  }
  static int send(ibv_qp* qp, ibv_ah* ah, std::uint32_t to, ibv_sge element) {
    ibv_send_wr wr{};
    wr.sg_list = &element;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud = {.ah = ah, .remote_qpn = to, .remote_qkey = kQkey};
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &wr, &bad);
  }

  End a_;
  End b_;
  ibv_qp* qp_ = a_.create_qp(IBV_QPT_UD);
  ibv_qp* peer_ = b_.create_qp(IBV_QPT_UD);
};

TEST_F(UdVerbs, ADatagramCanBeAnswered) {
  for (const std::uint8_t index : {std::uint8_t{0}, std::uint8_t{1}}) {  // IPv4 and IPv6
    ibv_ah_attr attributes = own_address(a_.context, index);
    ibv_ah* ah = table().create_ah(a_.pd, &attributes);
    ASSERT_NE(ah, nullptr);
    ASSERT_EQ(post_recv(peer_, 1, b_.element(0, kGrh + 64)), 0);
    ASSERT_EQ(send(qp_, ah, peer_->qp_num, a_.element(0, 64)), 0);
    EXPECT_EQ(next(a_.cq).status, IBV_WC_SUCCESS);
    ibv_wc received = next(b_.cq);
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.byte_len, kGrh + 64);
    EXPECT_EQ(received.src_qp, qp_->qp_num);
    EXPECT_NE(received.wc_flags & IBV_WC_GRH, 0u);
    EXPECT_EQ(received.sl, index == 0 ? 0xa : 0x9);  // by which UCX knows what the GRH is

    ibv_ah* back =
        table().create_ah_from_wc(b_.pd, &received, reinterpret_cast<ibv_grh*>(b_.bytes.data()), 1);
    ASSERT_NE(back, nullptr);
    ASSERT_EQ(post_recv(qp_, 2, a_.element(1024, kGrh + 64)), 0);
    ASSERT_EQ(send(peer_, back, received.src_qp, b_.element(0, 16)), 0);
    EXPECT_EQ(next(b_.cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(next(a_.cq).src_qp, peer_->qp_num);
    EXPECT_EQ(table().dealloc_pd(b_.pd), EBUSY);
    EXPECT_EQ(table().destroy_ah(back), 0);
    EXPECT_EQ(table().destroy_ah(ah), 0);
  }
}

/// UCX writes into the buffer as soon as the peer has answered, which may be before the completion.
TEST_F(UdVerbs, ADatagramIsReadWhenItIsPosted) {
  if (progress_is("thread")) {
    GTEST_SKIP() << "another thread reads it";
  }
  constexpr int kCount = 3;
  ibv_ah_attr attributes = own_address(a_.context);
  ibv_ah* ah = table().create_ah(a_.pd, &attributes);
  ASSERT_NE(ah, nullptr);
  for (int i = 0; i < kCount; ++i) {
    ASSERT_EQ(post_recv(peer_, 1, b_.element(static_cast<std::size_t>(i) * 64, kGrh + 8)), 0);
  }
  for (int i = 0; i < kCount; ++i) {
    std::memset(a_.bytes.data(), i, 8);
    ASSERT_EQ(send(qp_, ah, peer_->qp_num, a_.element(0, 8)), 0);
  }
  std::memset(a_.bytes.data(), kCount, 8);
  for (int i = 0; i < kCount; ++i) {
    EXPECT_EQ(next(b_.cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(static_cast<int>(b_.bytes[static_cast<std::size_t>(i) * 64 + kGrh]), i);
  }
  EXPECT_EQ(table().destroy_ah(ah), 0);
}

TEST_F(UdVerbs, ReceivesFromAnSrqToo) {
  ibv_srq_init_attr init{.srq_context = nullptr,
                         .attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0}};
  ibv_srq* srq = table().create_srq(b_.pd, &init);
  ASSERT_NE(srq, nullptr);
  ibv_qp* shared = b_.create_qp(IBV_QPT_UD, srq);
  bring_up(shared, 0);
  EXPECT_EQ(table().destroy_srq(srq), EBUSY);
  EXPECT_EQ(post_recv(shared, 1, b_.element(0, 8)), EINVAL);
  ibv_sge element = b_.element(0, kGrh + 64);
  ibv_recv_wr wr{.wr_id = 9, .next = nullptr, .sg_list = &element, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
  ibv_ah_attr attributes = own_address(a_.context);
  ibv_ah* ah = table().create_ah(a_.pd, &attributes);
  ASSERT_EQ(send(qp_, ah, shared->qp_num, a_.element(0, 64)), 0);
  EXPECT_EQ(next(b_.cq).wr_id, 9u);
  b_.destroy_qps();
  EXPECT_EQ(table().destroy_ah(ah), 0);
  EXPECT_EQ(table().destroy_srq(srq), 0);
}

TEST_F(UdVerbs, AGroupsDatagramsReachTheirSenderUnlessItBlocksThem) {
  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_UD;
  init.send_cq = init.recv_cq = b_.cq;
  init.cap = {.max_send_wr = 4,
              .max_recv_wr = 4,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  init.pd = b_.pd;
  init.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
  ibv_qp* blocking = extended(b_.context).create_qp_ex(b_.context, &init);
  ASSERT_NE(blocking, nullptr);
  bring_up(blocking, 0);
  ibv_ah_attr attributes = own_address(a_.context);
  ibv_gid& group = attributes.grh.dgid;
  group = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3}};
  ibv_ah* from_a = table().create_ah(a_.pd, &attributes);
  ibv_ah* from_b = table().create_ah(b_.pd, &attributes);
  ASSERT_EQ(table().attach_mcast(qp_, &group, 0), 0);
  ASSERT_EQ(table().attach_mcast(blocking, &group, 0), 0);
  ASSERT_EQ(post_recv(blocking, 1, b_.element(0, kGrh + 64)), 0);
  ASSERT_EQ(post_recv(qp_, 2, a_.element(0, kGrh + 64)), 0);
  ASSERT_EQ(send(blocking, from_b, kGroupQpn, b_.element(1024, 64)), 0);
  EXPECT_EQ(next(a_.cq).wr_id, 2u);
  EXPECT_EQ(next(b_.cq).opcode, IBV_WC_SEND);
  EXPECT_TRUE(is_empty(b_.cq));
  ASSERT_EQ(post_recv(qp_, 3, a_.element(0, kGrh + 64)), 0);
  ASSERT_EQ(send(qp_, from_a, kGroupQpn, a_.element(1024, 64)), 0);
  EXPECT_EQ(next(a_.cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(next(a_.cq).status, IBV_WC_SUCCESS);  // its own copy, or that it was sent
  EXPECT_EQ(next(b_.cq).src_qp, qp_->qp_num);
  EXPECT_EQ(table().destroy_qp(blocking), 0);
  EXPECT_EQ(table().destroy_ah(from_a), 0);
  EXPECT_EQ(table().destroy_ah(from_b), 0);
}

TEST_F(UdVerbs, AnAddressNeedsAGrhAndAnOwnGid) {
  ibv_ah_attr attributes = own_address(a_.context);
  attributes.is_global = 0;
  EXPECT_EQ(table().create_ah(a_.pd, &attributes), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attributes = own_address(a_.context);
  attributes.grh.sgid_index = 60;  // empty
  EXPECT_EQ(table().create_ah(a_.pd, &attributes), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(send(qp_, nullptr, peer_->qp_num, a_.element(0, 8)), EINVAL);
}

}  // namespace
}  // namespace rockhopper::test
