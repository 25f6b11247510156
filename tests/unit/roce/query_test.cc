// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What can be asked of engine, port and queue pair; events of the port; draining.
#include "tests/unit/roce/rig.h"

namespace rockhopper::test {
namespace {

using roce::AsyncEventType;
using roce::PortState;
using roce::QpState;
using roce::WcStatus;
using roce::WrOpcode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Opcode;

MATCHER_P(IsEvent, type, "") { return arg.type == type; }

TEST(Query, DeviceTellsTheLimitsThatCreationKeepsTo) {
  Rig rig;
  const auto device = rig.engine().query_device();
  const auto creates = [&](auto change) {
    roce::QpInit init{.pd = rig.pd(), .send_cq = &rig.send_cq(), .recv_cq = &rig.recv_cq()};
    change(init);
    const auto qp = rig.engine().create_qp(init);
    if (qp) rig.engine().destroy_qp(*qp);
    return qp.has_value();
  };
  for (const std::uint32_t more : {0u, 1u}) {
    EXPECT_EQ(creates([&](auto& init) { init.max_send_wr = device.max_qp_wr + more; }), more == 0);
    EXPECT_EQ(creates([&](auto& init) { init.max_recv_wr = device.max_qp_wr + more; }), more == 0);
    EXPECT_EQ(creates([&](auto& init) { init.max_send_sge = device.max_sge + more; }), more == 0);
    EXPECT_EQ(creates([&](auto& init) { init.max_inline_data = device.max_inline_data + more; }),
              more == 0);
    const auto srq = rig.engine().create_srq(
        {.pd = rig.pd(),
         .attributes = {.max_wr = device.max_srq_wr + more, .max_sge = device.max_srq_sge}});
    EXPECT_EQ(srq.has_value(), more == 0);
  }
  EXPECT_FALSE(roce::CompletionQueue::create(device.max_cqe + 1));
  EXPECT_TRUE(roce::CompletionQueue::create(device.max_cqe));
  EXPECT_EQ(device.max_qp, 1024u) << "as the engine was configured";
}

TEST(Query, PortTellsMtuAndState) {
  Rig rig;
  const auto port = rig.engine().query_port();
  EXPECT_EQ(port.state, PortState::active);
  EXPECT_EQ(roce::bytes(port.active_mtu), rig.engine().max_path_mtu());
  EXPECT_EQ(port.max_msg_sz, 1u << 31);
  EXPECT_GE(port.pkey_tbl_len, 16u);
  EXPECT_EQ(port.pkey_tbl_len, rig.engine().query_device().max_pkeys);
  EXPECT_GE(port.gid_tbl_len, 2u);
}

TEST(Query, ChangesOfThePortAreEvents) {
  Rig rig;
  rig.engine().set_port_state(PortState::active);
  EXPECT_THAT(rig.async_events(), IsEmpty());
  rig.engine().set_port_state(PortState::down);
  EXPECT_EQ(rig.engine().query_port().state, PortState::down);
  rig.engine().set_port_state(PortState::down);
  rig.engine().set_port_state(PortState::active);
  EXPECT_THAT(rig.async_events(),
              ElementsAre(IsEvent(AsyncEventType::port_err), IsEvent(AsyncEventType::port_active)));
}

TEST(Query, Clause11_2_5_2_APathMtuMustFitThePort) {
  const ConnectionOptions in_reset{.state = QpState::reset, .link_mtu = 1500};
  for (const auto mtu : {roce::PathMtu::mtu_1024, roce::PathMtu::mtu_2048}) {
    Rig rig(in_reset);
    ConnectionOptions options = in_reset;
    options.path_mtu = mtu;
    const bool fits = mtu <= rig.engine().query_port().active_mtu;
    EXPECT_EQ(fits, mtu == roce::PathMtu::mtu_1024);
    EXPECT_EQ(rig.qp().bring_up(rig.attributes(options), QpState::rtr).has_value(), fits);
    EXPECT_EQ(rig.qp().state(), fits ? QpState::rtr : QpState::init);
  }
}

TEST(Query, EventsBeyondTheLimitAreCounted) {
  Rig rig;
  for (int i = 0; i < 1030; ++i) {
    rig.engine().set_port_state(i % 2 == 0 ? PortState::down : PortState::active);
  }
  EXPECT_EQ(rig.async_events().size(), 1024u);
  EXPECT_EQ(rig.counters().async_events_lost.value(), 6u);
}

TEST(Query, EventsOfADestroyedQueuePairGoWithIt) {
  Rig rig;
  roce::QueuePair& other = rig.make_qp({});
  rig.bring_up(other, {});
  Packet bad = packet(Opcode::rc_send_last, 0x020000, pattern(8));
  rig.inject(bad);
  bad.headers.bth.destination = other.number();
  rig.inject(bad);
  rig.engine().destroy_qp(&other);
  for (const auto& event : rig.async_events()) {
    EXPECT_EQ(event.qp_num, rig.qp().number());
  }
}

TEST(Query, QueuePairTellsWhatItWasGiven) {
  const ConnectionOptions options{.path_mtu = roce::PathMtu::mtu_512,
                                  .max_rd_atomic = 3,
                                  .max_dest_rd_atomic = 5,
                                  .timeout = 11,
                                  .retry_cnt = 2,
                                  .rnr_retry = 6,
                                  .min_rnr_timer = 9};
  Rig rig(options);
  const auto a = rig.qp().query();
  EXPECT_EQ(a.qp_state, QpState::rts);
  EXPECT_EQ(a.cur_qp_state, QpState::rts);
  EXPECT_EQ(a.path_mtu, options.path_mtu);
  EXPECT_EQ(a.path_mig_state, roce::PathMigState::migrated);
  EXPECT_EQ(a.rq_psn, wire::Psn{options.rq_psn});
  EXPECT_EQ(a.sq_psn, wire::Psn{options.sq_psn});
  EXPECT_EQ(a.dest_qp_num.value, Rig::kPeerQpn);
  EXPECT_EQ(a.qp_access_flags, options.access);
  EXPECT_EQ(a.max_rd_atomic, options.max_rd_atomic);
  EXPECT_EQ(a.max_dest_rd_atomic, options.max_dest_rd_atomic);
  EXPECT_EQ(a.timeout, options.timeout);
  EXPECT_EQ(a.retry_cnt, options.retry_cnt);
  EXPECT_EQ(a.rnr_retry, options.rnr_retry);
  EXPECT_EQ(a.min_rnr_timer, options.min_rnr_timer);
  EXPECT_EQ(a.ah_attr.destination, options.peer);
  EXPECT_EQ(a.port_num, 1u);
  EXPECT_EQ(rig.qp().init().max_send_wr, options.max_send_wr);
  EXPECT_EQ(rig.qp().init().max_recv_wr, options.max_recv_wr);
}

TEST(Query, QueuePairOfAnSrqHasNoReceivesOfItsOwn) {
  Rig rig({.srq_max_wr = 4});
  EXPECT_EQ(rig.qp().init().max_recv_wr, 0u);
  EXPECT_EQ(rig.qp().init().max_recv_sge, 0u);
  EXPECT_EQ(rig.qp().init().srq, &rig.srq());
}

TEST(Query, QueuePairTellsHowDrainingGoes) {
  Rig rig;
  rig.post_send(1, WrOpcode::rdma_write, 8);
  (void)rig.sent();
  ASSERT_TRUE(
      rig.qp().modify({.qp_state = QpState::sqd}, roce::kQpState | roce::kQpEnSqdAsyncNotify));
  EXPECT_TRUE(rig.qp().query().sq_draining);
  EXPECT_TRUE(rig.qp().query().en_sqd_async_notify);
  rig.inject(ack(0x001000));
  EXPECT_FALSE(rig.qp().query().sq_draining);
  EXPECT_FALSE(rig.qp().query().en_sqd_async_notify);
  EXPECT_THAT(rig.async_events(), ElementsAre(IsEvent(AsyncEventType::sq_drained)));
}

TEST(Drain, MarksComeBehindEverything) {
  for (const QpState state : {QpState::init, QpState::rtr, QpState::rts, QpState::err}) {
    Rig rig({.state = state});
    const bool sends = state == QpState::rts;
    if (sends) {
      rig.post_send(1, WrOpcode::rdma_write, 8);
      rig.post_send(2, WrOpcode::rdma_write, 8);
      (void)rig.sent();
    }
    rig.post_recv(3, 8);
    ASSERT_TRUE(rig.qp().drain(100, 200));
    EXPECT_EQ(rig.qp().state(), QpState::err);
    auto sent = rig.send_completions();
    ASSERT_EQ(sent.size(), sends ? 3u : 1u);
    EXPECT_THAT(sent.back(), Completed(100u, WcStatus::wr_flush_err));
    EXPECT_THAT(rig.recv_completions(), ElementsAre(Completed(3u, WcStatus::wr_flush_err),
                                                    Completed(200u, WcStatus::wr_flush_err)));
    rig.inject(ack(0x001001));
    EXPECT_THAT(rig.send_completions(), IsEmpty());
  }
}

TEST(Drain, WithAnSrqTheReceivesStay) {
  Rig rig({.srq_max_wr = 4});
  rig.post_recv(3, 8);
  ASSERT_TRUE(rig.qp().drain(100, 200));
  EXPECT_THAT(rig.recv_completions(), IsEmpty());
  EXPECT_THAT(rig.async_events(), ElementsAre(IsEvent(AsyncEventType::qp_last_wqe_reached)));
  EXPECT_EQ(rig.srq().depth(), 1u);
}

TEST(Drain, ResetHasNothingToDrain) {
  Rig rig({.state = QpState::reset});
  EXPECT_FALSE(rig.qp().drain(1, 2));
}

}  // namespace
}  // namespace rockhopper::test
