// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The state machine of a queue pair: values of attributes, what each state takes.
#include "tests/unit/roce/rig.h"

namespace rockhopper::test {
namespace {

using roce::AsyncEventType;
using roce::PostResult;
using roce::QpState;
using roce::WcStatus;
using roce::WrOpcode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Opcode;

TEST(QpTransitions, NothingIsSetOnTheWayToResetOrError) {
  for (const QpState to : {QpState::reset, QpState::err}) {
    Rig rig;
    roce::QpAttributes a = rig.attributes({});
    a.qp_state = to;
    EXPECT_FALSE(rig.qp().modify(a, roce::kQpState | roce::kQpMinRnrTimer).has_value());
    EXPECT_EQ(rig.qp().state(), QpState::rts);
  }
}

TEST(QpTransitions, WrongCurrentStateIsRefused) {
  Rig rig;
  roce::QpAttributes a;
  a.qp_state = QpState::rts;
  a.cur_qp_state = QpState::sqd;
  EXPECT_FALSE(rig.qp().modify(a, roce::kQpState | roce::kQpCurState).has_value());
}

TEST(QpTransitions, ValuesOutOfRangeAreRefused) {
  using Change = void (*)(roce::QpAttributes&);
  const std::vector<std::pair<const char*, Change>> to_rtr = {
      {"path MTU", [](roce::QpAttributes& a) { a.path_mtu = roce::PathMtu{1000}; }},
      {"RQ PSN", [](roce::QpAttributes& a) { a.rq_psn.value = 0x1000000; }},
      {"QPN", [](roce::QpAttributes& a) { a.dest_qp_num.value = 0x1000000; }},
      {"RNR timer", [](roce::QpAttributes& a) { a.min_rnr_timer = 32; }},
      {"resources", [](roce::QpAttributes& a) { a.max_dest_rd_atomic = 255; }},
      {"source",
       [](roce::QpAttributes& a) { a.ah_attr.source = stack::IpAddress::from_ipv4(0x0a000063); }},
      {"no destination", [](roce::QpAttributes& a) { a.ah_attr.destination = {}; }},
      {"multicast destination",
       [](roce::QpAttributes& a) {
         a.ah_attr.destination = stack::IpAddress::from_ipv4(0xe0000001);
       }},
      {"two families",
       [](roce::QpAttributes& a) { a.ah_attr.destination = *stack::IpAddress::parse("fd00::2"); }},
      {"flow label", [](roce::QpAttributes& a) { a.ah_attr.flow_label = 1u << 20; }},
      {"service level", [](roce::QpAttributes& a) { a.ah_attr.service_level = 8; }},
  };
  for (const auto& [name, change] : to_rtr) {
    Rig rig({.state = QpState::init});
    roce::QpAttributes a = rig.attributes({});
    a.qp_state = QpState::rtr;
    change(a);
    EXPECT_FALSE(rig.qp().modify(a, step_masks(roce::QpType::rc).rtr).has_value()) << name;
    EXPECT_EQ(rig.qp().state(), QpState::init) << name;
  }
  const std::vector<std::pair<const char*, Change>> to_rts = {
      {"SQ PSN", [](roce::QpAttributes& a) { a.sq_psn.value = 0x1000000; }},
      {"timeout", [](roce::QpAttributes& a) { a.timeout = 32; }},
      {"retries", [](roce::QpAttributes& a) { a.retry_cnt = 8; }},
      {"RNR retries", [](roce::QpAttributes& a) { a.rnr_retry = 8; }},
      {"READs", [](roce::QpAttributes& a) { a.max_rd_atomic = 255; }},
  };
  for (const auto& [name, change] : to_rts) {
    Rig rig({.state = QpState::rtr});
    roce::QpAttributes a = rig.attributes({});
    a.qp_state = QpState::rts;
    change(a);
    EXPECT_FALSE(rig.qp().modify(a, step_masks(roce::QpType::rc).rts).has_value()) << name;
    EXPECT_EQ(rig.qp().state(), QpState::rtr) << name;
  }
}

TEST(QpTransitions, QueryTellsWhatWasSet) {
  const ConnectionOptions options{.path_mtu = roce::PathMtu::mtu_2048,
                                  .access = roce::kAccessRemoteRead,
                                  .sq_psn = 0xabc,
                                  .rq_psn = 0xdef,
                                  .max_rd_atomic = 3,
                                  .max_dest_rd_atomic = 5,
                                  .timeout = 17,
                                  .retry_cnt = 6,
                                  .rnr_retry = 2,
                                  .min_rnr_timer = 9};
  Rig rig(options);
  const roce::QpAttributes a = rig.qp().query();
  EXPECT_EQ(a.qp_state, QpState::rts);
  EXPECT_EQ(a.path_mtu, options.path_mtu);
  EXPECT_EQ(a.qp_access_flags, options.access);
  EXPECT_EQ(a.sq_psn.value, options.sq_psn);
  EXPECT_EQ(a.rq_psn.value, options.rq_psn);
  EXPECT_EQ(a.max_rd_atomic, options.max_rd_atomic);
  EXPECT_EQ(a.max_dest_rd_atomic, options.max_dest_rd_atomic);
  EXPECT_EQ(a.timeout, options.timeout);
  EXPECT_EQ(a.retry_cnt, options.retry_cnt);
  EXPECT_EQ(a.rnr_retry, options.rnr_retry);
  EXPECT_EQ(a.min_rnr_timer, options.min_rnr_timer);
  EXPECT_EQ(a.dest_qp_num.value, Rig::kPeerQpn);
}

struct StateRow {
  QpState state;
  PostResult send;
  PostResult receive;
  bool executes;  ///< the peer's requests
  bool sends;     ///< new requests
};

class InState : public ::testing::TestWithParam<StateRow> {};

TEST_P(InState, Clause10_3_1_PostsAndPackets) {
  const StateRow& row = GetParam();
  Rig rig({.state = row.state});
  const std::array<roce::Sge, 1> list{{{.addr = rig.va(), .length = 8, .lkey = rig.key()}}};
  EXPECT_EQ(rig.post({.wr_id = 1, .sg_list = list, .opcode = WrOpcode::rdma_write}), row.send);
  EXPECT_EQ(rig.qp().post_recv({.wr_id = 2, .sg_list = list}), row.receive);
  const bool flushes = row.state == QpState::err;
  EXPECT_EQ(rig.send_completions().size(), flushes ? 1u : 0u);
  EXPECT_EQ(rig.recv_completions().size(), flushes ? 1u : 0u);
  EXPECT_EQ(rig.sent().size(), row.sends ? 1u : 0u);
  rig.inject(write_packet(Opcode::rc_rdma_write_only, 0x020000,
                          {.va = rig.va(512), .rkey = rig.rkey(), .length = 8}, pattern(8)));
  EXPECT_EQ(rig.memory_at(512, 8) == pattern(8), row.executes);
  EXPECT_EQ(rig.sent().size(), row.executes ? 1u : 0u);
  EXPECT_EQ(rig.drops(roce::DropReason::bad_qp_state), row.executes ? 0u : 1u);
}

INSTANTIATE_TEST_SUITE_P(
    States, InState,
    ::testing::Values(
        StateRow{QpState::reset, PostResult::invalid_state, PostResult::invalid_state, false,
                 false},
        StateRow{QpState::init, PostResult::invalid_state, PostResult::ok, false, false},
        StateRow{QpState::rtr, PostResult::invalid_state, PostResult::ok, true, false},
        StateRow{QpState::rts, PostResult::ok, PostResult::ok, true, true},
        StateRow{QpState::sqd, PostResult::ok, PostResult::ok, true, false},
        StateRow{QpState::err, PostResult::ok, PostResult::ok, false, false}),
    [](const auto& row) { return std::string(to_string(row.param.state)); });

TEST(QpStates, FirstRequestInRtrRaisesCommunicationEstablished) {
  Rig rig({.state = QpState::rtr});
  for (std::uint32_t i = 0; i < 2; ++i) {
    rig.inject(write_packet(Opcode::rc_rdma_write_only, 0x020000 + i,
                            {.va = rig.va(), .rkey = rig.rkey(), .length = 8}, pattern(8)));
  }
  const auto events = rig.async_events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].type, AsyncEventType::comm_est);
}

TEST(QpStates, Clause10_3_1_ErrorFlushesBothQueuesInOrder) {
  Rig rig;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    rig.post_send(i, WrOpcode::send, 8);
    rig.post_recv(10 + i, 8);
  }
  (void)rig.sent();
  rig.inject(ack(0x001000));
  roce::QpAttributes error;
  error.qp_state = QpState::err;
  ASSERT_TRUE(rig.qp().modify(error, roce::kQpState).has_value());
  EXPECT_THAT(rig.send_completions(),
              ElementsAre(Completed(1u, WcStatus::success), Completed(2u, WcStatus::wr_flush_err),
                          Completed(3u, WcStatus::wr_flush_err)));
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Completed(11u, WcStatus::wr_flush_err),
                                                  Completed(12u, WcStatus::wr_flush_err),
                                                  Completed(13u, WcStatus::wr_flush_err)));
  // Late answers find nothing.
  rig.inject(ack(0x001002));
  rig.advance(60'000'000'000);
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_THAT(rig.send_completions(), IsEmpty());
}

TEST(QpStates, ErrorFlushesUnsignalledRequestsToo) {
  Rig rig({.sq_sig_all = false});
  rig.post_send(1, WrOpcode::send, 8);
  roce::QpAttributes error;
  error.qp_state = QpState::err;
  ASSERT_TRUE(rig.qp().modify(error, roce::kQpState).has_value());
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(1u, WcStatus::wr_flush_err)));
}

TEST(QpStates, ErrorFlushesTheReceiveOfAMessageInProgress) {
  Rig rig;
  rig.post_recv(1, 1024);
  rig.inject(packet(Opcode::rc_send_first, 0x020000, pattern(256)));
  roce::QpAttributes error;
  error.qp_state = QpState::err;
  ASSERT_TRUE(rig.qp().modify(error, roce::kQpState).has_value());
  EXPECT_THAT(rig.recv_completions(), ElementsAre(Completed(1u, WcStatus::wr_flush_err)));
}

TEST(QpStates, ResetForgetsWithoutCompletions) {
  const ConnectionOptions options;
  Rig rig(options);
  rig.post_send(1, WrOpcode::send, 8);
  rig.post_send(2, WrOpcode::rdma_read, 8);
  rig.post_recv(3, 8);
  (void)rig.sent();
  roce::QpAttributes reset;
  reset.qp_state = QpState::reset;
  ASSERT_TRUE(rig.qp().modify(reset, roce::kQpState).has_value());
  EXPECT_EQ(rig.qp().send_queue_depth(), 0u);
  EXPECT_EQ(rig.qp().recv_queue_depth(), 0u);
  rig.advance(60'000'000'000);
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_THAT(rig.send_completions(), IsEmpty());
  EXPECT_THAT(rig.recv_completions(), IsEmpty());
  rig.bring_up(rig.qp(), options);
  rig.inject(ack(0x001001));  // of the old connection
  rig.post_send(4, WrOpcode::rdma_write, 8);
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_rdma_write_only, 0x001000u)));
  rig.inject(ack(0x001000));
  EXPECT_THAT(rig.send_completions(), ElementsAre(Completed(4u, WcStatus::success)));
}

TEST(QpStates, Clause10_3_1_DrainFinishesWhatHasBegunAndStartsNothing) {
  Rig rig({}, 2);
  rig.post_send(1, WrOpcode::send, 4 * 256);
  rig.post_send(2, WrOpcode::rdma_write, 8);
  EXPECT_EQ(rig.sent().size(), 2u);
  roce::QpAttributes a;
  a.qp_state = QpState::sqd;
  ASSERT_TRUE(rig.qp().modify(a, roce::kQpState | roce::kQpEnSqdAsyncNotify).has_value());
  EXPECT_TRUE(rig.qp().query().sq_draining);
  EXPECT_THAT(rig.async_events(), IsEmpty());
  // In SQD no attribute may change before the queue is drained.
  a.timeout = 5;
  EXPECT_FALSE(rig.qp().modify(a, roce::kQpState | roce::kQpTimeout).has_value());
  rig.inject(ack(0x001001));
  EXPECT_EQ(rig.sent().size(), 2u) << "the message that has begun goes on";
  rig.inject(ack(0x001003));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_FALSE(rig.qp().query().sq_draining);
  const auto events = rig.async_events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].type, AsyncEventType::sq_drained);
  EXPECT_TRUE(rig.qp().modify(a, roce::kQpState | roce::kQpTimeout).has_value());
  EXPECT_EQ(rig.qp().query().timeout, 5);
  a.qp_state = QpState::rts;
  ASSERT_TRUE(rig.qp().modify(a, roce::kQpState).has_value());
  EXPECT_THAT(rig.sent(), ElementsAre(IsPacket(Opcode::rc_rdma_write_only, 0x001004u)));
}

TEST(QpStates, DrainOfAnIdleQueueIsDoneAtOnce) {
  Rig rig;
  roce::QpAttributes a;
  a.qp_state = QpState::sqd;
  ASSERT_TRUE(rig.qp().modify(a, roce::kQpState | roce::kQpEnSqdAsyncNotify).has_value());
  EXPECT_FALSE(rig.qp().query().sq_draining);
  const auto events = rig.async_events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].type, AsyncEventType::sq_drained);
}

TEST(QpStates, DrainStillRetransmits) {
  Rig rig;
  rig.post_send(1, WrOpcode::send, 8);
  EXPECT_EQ(rig.sent().size(), 1u);
  roce::QpAttributes a;
  a.qp_state = QpState::sqd;
  ASSERT_TRUE(rig.qp().modify(a, roce::kQpState).has_value());
  rig.advance(5'000'000);
  EXPECT_EQ(rig.sent().size(), 1u);
}

TEST(QpStates, DestroyedQueuePairTakesItsPacketsAndTimersWithIt) {
  Rig rig;
  roce::QueuePair& other = rig.make_qp({});
  rig.bring_up(other, {});
  const std::array<roce::Sge, 1> list{{{.addr = rig.va(), .length = 8, .lkey = rig.key()}}};
  ASSERT_EQ(other.post_send({.wr_id = 1, .sg_list = list}), PostResult::ok);
  Packet late = ack(0x001000);
  late.headers.bth.destination = other.number();
  rig.engine().destroy_qp(&other);
  EXPECT_EQ(rig.engine().qp_count(), 1u);
  rig.inject(late);
  rig.advance(60'000'000'000);
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.drops(roce::DropReason::unknown_qp), 1u);
}

}  // namespace
}  // namespace rockhopper::test
