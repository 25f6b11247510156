// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Shared receive queues, and extended reliable connections, which need them.
#include <cerrno>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/verbs/rig.h"

namespace rockhopper::test {
namespace {

int post(ibv_srq* srq, std::uint64_t wr_id, ibv_sge element) {
  ibv_recv_wr wr{.wr_id = wr_id, .next = nullptr, .sg_list = &element, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  return ibv_post_srq_recv(srq, &wr, &bad);
}

TEST(SharedReceiveQueues, QueuePairsTakeFromOne) {
  End a;
  End b;
  ibv_srq_init_attr init{.srq_context = &a, .attr = {.max_wr = 8, .max_sge = 2, .srq_limit = 0}};
  ibv_srq* srq = table().create_srq(b.pd, &init);
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(srq->srq_context, &a);
  EXPECT_GE(init.attr.max_wr, 8u);
  ibv_qp* first = a.create_qp(IBV_QPT_RC);
  ibv_qp* second = a.create_qp(IBV_QPT_RC);
  connect(first, b.create_qp(IBV_QPT_RC, srq));
  connect(second, b.create_qp(IBV_QPT_RC, srq));
  ASSERT_EQ(post(srq, 1, b.element(0, 64)), 0);
  ASSERT_EQ(post(srq, 2, b.element(64, 64)), 0);
  ASSERT_EQ(post_send(second, 0, IBV_WR_SEND, a.element(0, 32)), 0);
  const ibv_wc one = next(b.cq);
  EXPECT_EQ(one.wr_id, 1u);
  EXPECT_EQ(one.qp_num, b.qps[1]->qp_num);
  ASSERT_EQ(post_send(first, 0, IBV_WR_SEND, a.element(0, 32)), 0);
  EXPECT_EQ(next(b.cq).wr_id, 2u);

  ibv_srq_attr attributes{.max_wr = 16, .max_sge = 0, .srq_limit = 0};
  EXPECT_EQ(table().modify_srq(srq, &attributes, IBV_SRQ_MAX_WR), 0);
  EXPECT_EQ(table().query_srq(srq, &attributes), 0);
  EXPECT_EQ(attributes.max_wr, 16u);
  EXPECT_EQ(attributes.max_sge, 2u);
  std::uint32_t number = 0;
  EXPECT_NE(extended(b.context).get_srq_num(srq, &number), 0);  // of XRC only
  b.destroy_qps();
  EXPECT_EQ(table().destroy_srq(srq), 0);
}

class ExtendedConnections : public ::testing::Test {
 protected:
  ibv_xrcd* open_domain(int fd) {
    ibv_xrcd_init_attr init{.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
                            .fd = fd,
                            .oflags = O_CREAT};
    return extended(b_.context).open_xrcd(b_.context, &init);
  }
  ibv_srq* create_srq(ibv_xrcd* xrcd) {
    ibv_srq_init_attr_ex init{};
    init.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
    init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ;
    init.srq_type = IBV_SRQT_XRC;
    init.pd = b_.pd;
    init.xrcd = xrcd;
    init.cq = b_.cq;
    return extended(b_.context).create_srq_ex(b_.context, &init);
  }
  ibv_qp* create_target(ibv_xrcd* xrcd) {
    ibv_qp_init_attr_ex init{};
    init.qp_type = IBV_QPT_XRC_RECV;
    init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    init.xrcd = xrcd;
    return extended(b_.context).create_qp_ex(b_.context, &init);
  }
  ibv_qp* create_initiator() {
    ibv_qp_init_attr_ex init{};
    init.send_cq = a_.cq;
    init.cap = {.max_send_wr = 8,
                .max_recv_wr = 0,
                .max_send_sge = 1,
                .max_recv_sge = 0,
                .max_inline_data = 0};
    init.qp_type = IBV_QPT_XRC_SEND;
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    init.pd = a_.pd;
    return extended(a_.context).create_qp_ex(a_.context, &init);
  }

  End a_;
  End b_;
};

TEST_F(ExtendedConnections, TheMessageNamesTheSrq) {
  ibv_xrcd* xrcd = open_domain(-1);
  ASSERT_NE(xrcd, nullptr);
  ibv_srq* srq = create_srq(xrcd);
  ASSERT_NE(srq, nullptr);
  ibv_qp* target = create_target(xrcd);
  ASSERT_NE(target, nullptr);
  ibv_qp* initiator = create_initiator();
  ASSERT_NE(initiator, nullptr);
  connect(initiator, target);
  std::uint32_t number = 0;
  ASSERT_EQ(extended(b_.context).get_srq_num(srq, &number), 0);
  ASSERT_EQ(post(srq, 3, b_.element(0, 64)), 0);
  ibv_sge element = a_.element(0, 64);
  ibv_send_wr wr{};
  wr.sg_list = &element;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.qp_type.xrc.remote_srqn = number;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(initiator, &wr, &bad), 0);
  EXPECT_EQ(next(a_.cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(next(b_.cq).wr_id, 3u);

  // A second handle of the target keeps it.
  ibv_qp_open_attr open{};
  open.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  open.qp_num = target->qp_num;
  open.xrcd = xrcd;
  open.qp_type = IBV_QPT_XRC_RECV;
  ibv_qp* second = extended(b_.context).open_qp(b_.context, &open);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->qp_num, target->qp_num);
  EXPECT_EQ(table().destroy_qp(target), 0);
  EXPECT_EQ(extended(b_.context).close_xrcd(xrcd), EBUSY);
  ASSERT_EQ(post(srq, 4, b_.element(0, 64)), 0);
  ASSERT_EQ(ibv_post_send(initiator, &wr, &bad), 0);
  EXPECT_EQ(next(b_.cq).wr_id, 4u);
  EXPECT_EQ(next(a_.cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(table().destroy_qp(initiator), 0);
  EXPECT_EQ(table().destroy_qp(second), 0);
  open.qp_num ^= 1;
  EXPECT_EQ(extended(b_.context).open_qp(b_.context, &open), nullptr);
  EXPECT_EQ(extended(b_.context).close_xrcd(xrcd), EBUSY);
  EXPECT_EQ(table().destroy_srq(srq), 0);
  EXPECT_EQ(extended(b_.context).close_xrcd(xrcd), 0);
}

TEST_F(ExtendedConnections, AFileNamesADomain) {
  char path[] = "/tmp/rockhopper-xrc-XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  unlink(path);
  ibv_xrcd* first = open_domain(fd);
  ibv_xrcd* second = open_domain(fd);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  ibv_qp* target = create_target(first);
  ASSERT_NE(target, nullptr);
  ibv_qp_open_attr open{};
  open.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  open.qp_num = target->qp_num;
  open.xrcd = second;
  open.qp_type = IBV_QPT_XRC_RECV;
  ibv_qp* opened = extended(b_.context).open_qp(b_.context, &open);
  ASSERT_NE(opened, nullptr);
  EXPECT_EQ(table().destroy_qp(opened), 0);
  EXPECT_EQ(table().destroy_qp(target), 0);
  EXPECT_EQ(extended(b_.context).close_xrcd(first), 0);
  EXPECT_EQ(extended(b_.context).close_xrcd(second), 0);
  close(fd);
}

}  // namespace
}  // namespace rockhopper::test
