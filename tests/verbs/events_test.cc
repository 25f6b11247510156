// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Completion events and asynchronous events: descriptors, acknowledgements, what is never lost.
#include <atomic>
#include <cerrno>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "tests/verbs/rig.h"

namespace rockhopper::test {
namespace {

bool readable(int fd, int timeout_ms) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&entry, 1, timeout_ms) == 1;
}

void make_non_blocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

class Events : public ::testing::Test {
 protected:
  Events() { connect(qp_, peer_); }
  void send(unsigned flags) {
    ASSERT_EQ(post_recv(peer_, 1, b_.element(0, 64)), 0);
    ibv_sge element = a_.element(0, 8);
    ibv_send_wr wr{};
    wr.sg_list = &element;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = flags;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(qp_, &wr, &bad), 0);
  }
  /// Takes and acknowledges an event, which must be there.
  void take_event() {
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    ASSERT_EQ(table().get_cq_event(b_.channel, &cq, &cq_context), 0);
    EXPECT_EQ(cq, b_.cq);
    EXPECT_EQ(cq_context, &b_);
    table().ack_cq_events(cq, 1);
  }

  End a_;
  End b_{256, table().create_comp_channel};
  ibv_qp* qp_ = a_.create_qp(IBV_QPT_RC);
  ibv_qp* peer_ = b_.create_qp(IBV_QPT_RC);
};

/// Nobody polls: the thread of the node does the work.
TEST_F(Events, ASleeperIsWoken) {
  if (progress_is("inline")) {
    GTEST_SKIP() << "there is no such thread";
  }
  ASSERT_EQ(ibv_req_notify_cq(b_.cq, 0), 0);
  std::thread sender([this] { send(0); });
  take_event();  // the descriptor blocks
  sender.join();
  EXPECT_EQ(next(b_.cq).status, IBV_WC_SUCCESS);
  EXPECT_FALSE(readable(b_.channel->fd, 0));
}

TEST_F(Events, NoneWithoutRequestAndOneForEach) {
  make_non_blocking(b_.channel->fd);
  send(0);
  (void)next(b_.cq);
  EXPECT_FALSE(readable(b_.channel->fd, 20));
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  EXPECT_EQ(table().get_cq_event(b_.channel, &cq, &cq_context), -1);
  EXPECT_EQ(errno, EAGAIN);
  ASSERT_EQ(ibv_req_notify_cq(b_.cq, 0), 0);
  send(0);
  send(0);
  (void)next(b_.cq);
  (void)next(b_.cq);
  EXPECT_TRUE(readable(b_.channel->fd, 1000));
  take_event();
  EXPECT_FALSE(readable(b_.channel->fd, 20));
}

/// A program that arms after its last poll, and does not poll again, is woken for what came
/// between.
TEST_F(Events, OneForWhatIsThereAlready) {
  send(IBV_SEND_SIGNALED);
  EXPECT_EQ(next(a_.cq).status, IBV_WC_SUCCESS);  // the peer's is there too then
  ASSERT_EQ(ibv_req_notify_cq(b_.cq, 0), 0);
  EXPECT_TRUE(readable(b_.channel->fd, 1000));
  take_event();
  // One event tells of it, though it is still there.
  ASSERT_EQ(ibv_req_notify_cq(b_.cq, 0), 0);
  EXPECT_FALSE(readable(b_.channel->fd, 20));
  EXPECT_EQ(next(b_.cq).status, IBV_WC_SUCCESS);
}

TEST_F(Events, SolicitedOnly) {
  ASSERT_EQ(ibv_req_notify_cq(b_.cq, 1), 0);
  send(0);
  (void)next(b_.cq);
  EXPECT_FALSE(readable(b_.channel->fd, 20));
  send(IBV_SEND_SOLICITED);
  (void)next(b_.cq);
  EXPECT_TRUE(readable(b_.channel->fd, 1000));
  take_event();
  // Who waits for any goes on to do so.
  ASSERT_EQ(ibv_req_notify_cq(b_.cq, 0), 0);
  ASSERT_EQ(ibv_req_notify_cq(b_.cq, 1), 0);
  send(0);
  (void)next(b_.cq);
  EXPECT_TRUE(readable(b_.channel->fd, 1000));
  take_event();
}

TEST_F(Events, AChannelInUseAndAnEventOfAQueueThatGoes) {
  EXPECT_EQ(table().destroy_comp_channel(b_.channel), EBUSY);
  ibv_cq* other = table().create_cq(b_.context, 8, nullptr, b_.channel, 0);
  ASSERT_NE(other, nullptr);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = other;
  init.cap = {.max_send_wr = 1,
              .max_recv_wr = 1,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  init.qp_type = IBV_QPT_UD;
  ibv_qp* qp = table().create_qp(b_.pd, &init);
  bring_up(qp, 0);
  EXPECT_EQ(table().destroy_cq(other), EBUSY);
  ASSERT_EQ(post_recv(qp, 1, b_.element(0, 64)), 0);
  ASSERT_EQ(ibv_req_notify_cq(other, 0), 0);
  ASSERT_EQ(modify_state(qp, IBV_QPS_ERR), 0);
  EXPECT_TRUE(readable(b_.channel->fd, 1000));
  EXPECT_EQ(table().destroy_qp(qp), 0);
  EXPECT_EQ(table().destroy_cq(other), 0);
  EXPECT_FALSE(readable(b_.channel->fd, 0));
}

TEST_F(Events, ADestroyedQueueWaitsForAcknowledgements) {
  ibv_cq* other = table().create_cq(b_.context, 8, &b_, b_.channel, 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = other;
  init.cap = {.max_send_wr = 1,
              .max_recv_wr = 1,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  init.qp_type = IBV_QPT_UD;
  ibv_qp* qp = table().create_qp(b_.pd, &init);
  bring_up(qp, 0);
  ASSERT_EQ(post_recv(qp, 1, b_.element(0, 64)), 0);
  ASSERT_EQ(ibv_req_notify_cq(other, 0), 0);
  ASSERT_EQ(modify_state(qp, IBV_QPS_ERR), 0);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  ASSERT_EQ(table().get_cq_event(b_.channel, &cq, &cq_context), 0);
  EXPECT_EQ(cq, other);
  EXPECT_EQ(table().destroy_qp(qp), 0);
  std::atomic<bool> acknowledged{false};
  std::thread destroyer([&] {
    EXPECT_EQ(table().destroy_cq(other), 0);
    EXPECT_TRUE(acknowledged);
  });
  acknowledged = true;
  table().ack_cq_events(cq, 1);
  destroyer.join();
}

TEST_F(Events, AsynchronousOnes) {
  make_non_blocking(b_.context->async_fd);
  ibv_async_event event{};
  // The responder's first message in RTR or RTS, and what else brought it up.
  while (table().get_async_event(b_.context, &event) == 0) {
    table().ack_async_event(&event);
  }
  EXPECT_EQ(errno, EAGAIN);
  ASSERT_EQ(post_send(qp_, 1, IBV_WR_RDMA_WRITE, a_.element(0, 8), 0, 0xdead), 0);
  EXPECT_EQ(next(a_.cq).status, IBV_WC_REM_ACCESS_ERR);
  ASSERT_TRUE(readable(b_.context->async_fd, 1000));
  ASSERT_EQ(table().get_async_event(b_.context, &event), 0);
  EXPECT_EQ(event.element.qp, peer_);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
  table().ack_async_event(&event);
  EXPECT_EQ(table().get_async_event(b_.context, &event), -1) << "one event tells of it";
  make_non_blocking(a_.context->async_fd);
  EXPECT_EQ(table().get_async_event(a_.context, &event), -1) << "the completion has told of it";
}

/// Programs look at the member between two calls of theirs, so it changes in no other.
TEST_F(Events, AQueuePairsStateIsShownWhenItIsAskedFor) {
  ASSERT_EQ(post_send(qp_, 1, IBV_WR_RDMA_WRITE, a_.element(0, 8), 0, 0xdead), 0);
  EXPECT_EQ(next(a_.cq).status, IBV_WC_REM_ACCESS_ERR);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(table().query_qp(qp_, &attributes, IBV_QP_CAP, &init), 0);
  EXPECT_EQ(qp_->state, IBV_QPS_RTS);
  EXPECT_EQ(peer_->state, IBV_QPS_RTS);
  for (ibv_qp* qp : {qp_, peer_}) {
    ASSERT_EQ(table().query_qp(qp, &attributes, IBV_QP_STATE, &init), 0);
    EXPECT_EQ(attributes.qp_state, IBV_QPS_ERR);
    EXPECT_EQ(qp->state, IBV_QPS_ERR);
  }
}

TEST_F(Events, TheLimitOfAnSrq) {
  ibv_srq_init_attr init{.srq_context = nullptr,
                         .attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0}};
  ibv_srq* srq = table().create_srq(b_.pd, &init);
  ASSERT_NE(srq, nullptr);
  ibv_srq_attr attributes{.max_wr = 0, .max_sge = 0, .srq_limit = 4};
  ASSERT_EQ(table().modify_srq(srq, &attributes, IBV_SRQ_LIMIT), 0);
  ASSERT_TRUE(readable(b_.context->async_fd, 1000));
  ibv_async_event event{};
  ASSERT_EQ(table().get_async_event(b_.context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event.element.srq, srq);
  table().ack_async_event(&event);
  EXPECT_EQ(table().destroy_srq(srq), 0);
}

}  // namespace
}  // namespace rockhopper::test
