// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Connections of queue pairs that the application moves through their states itself, as librdmacm
// does (IBTA vol. 1, 12.9.6, 12.9.7).
#include <array>
#include <cstring>

#include "tests/unit/cm/peer_fixture.h"

namespace rockhopper::roce::cm {
namespace {

using sim::must;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::cm::Attribute;
using wire::cm::RejectReason;

class ExternalQueuePair : public CmTest {
 protected:
  struct Ends {
    QueuePair* active_qp = nullptr;
    QueuePair* passive_qp = nullptr;
    Connection* active = nullptr;
    Connection* passive = nullptr;
  };

  static ExternalQp external(const QueuePair& qp, bool has_srq = false) {
    return {.type = qp.init().qp_type,
            .number = qp.number(),
            .has_srq = has_srq,
            .has_flow_control = !has_srq};
  }
  /// As an application moves it.
  static void move(QueuePair& qp, const Connection& connection) {
    const QpAttributes attributes = must(ConnectionManager::qp_attributes(connection));
    must(qp.modify({.qp_state = QpState::init,
                    .qp_access_flags = kAccessRemoteWrite,
                    .pkey_index = attributes.pkey_index},
                   kQpState | kQpAccessFlags | kQpPkeyIndex | kQpPort));
    must(qp.bring_up(attributes, QpState::rts));
  }

  /// Node 1 has been asked.
  Ends request(QpType type = QpType::rc, const ConnectParameters& parameters = {}) {
    Ends ends{.active_qp = &net().make_qp(0, type), .passive_qp = &net().make_qp(1, type)};
    ends.active = connect_external(external(*ends.active_qp, true), parameters);
    ends.passive = await(1, EventType::connect_request).connection;
    return ends;
  }
  /// Node 0 has been answered.
  Ends reply(QpType type = QpType::rc, const ConnectParameters& parameters = {},
             const QpParameters& answer = {}) {
    Ends ends = request(type, parameters);
    move(*ends.passive_qp, *ends.passive);
    must(manager(1).accept(*ends.passive, external(*ends.passive_qp), answer));
    await(0, EventType::connect_response);
    return ends;
  }
  Ends establish(QpType type = QpType::rc) {
    Ends ends = reply(type);
    move(*ends.active_qp, *ends.active);
    must(manager(0).confirm(*ends.active));
    await(1, EventType::established);
    return ends;
  }
  /// A message of node 0 arrives at node 1, and one of node 1's at node 0.
  void exchange_data(const Ends& ends) {
    for (unsigned node = 0; node < 2; ++node) {
      QueuePair& from = node == 0 ? *ends.active_qp : *ends.passive_qp;
      QueuePair& to = node == 0 ? *ends.passive_qp : *ends.active_qp;
      constexpr std::uint32_t kBytes = 1000;
      std::memset(net().memory(node).data(), static_cast<int>(node + 7), kBytes);
      const Sge receive = net().sge(1 - node, 2048, kBytes);
      const Sge send = net().sge(node, 0, kBytes);
      ASSERT_EQ(to.post_recv({.wr_id = 1, .sg_list = {&receive, 1}}), PostResult::ok);
      ASSERT_EQ(from.post_send({.wr_id = 2,
                                .sg_list = {&send, 1},
                                .opcode = WrOpcode::send,
                                .send_flags = kSendSignaled}),
                PostResult::ok);
      net().run_for(kSecondNs);
      EXPECT_EQ(net().memory(1 - node).at(2048 + kBytes - 1), node + 7);
    }
  }
};

TEST_F(ExternalQueuePair, BothEndsAreMovedByTheirApplications) {
  for (const QpType type : {QpType::rc, QpType::uc}) {
    start();
    const Ends ends = establish(type);
    EXPECT_EQ(ends.active->state(), State::established);
    EXPECT_EQ(ends.passive->state(), State::established);
    EXPECT_THAT(types(0), ElementsAre(EventType::connect_response));
    EXPECT_THAT(types(1), ElementsAre(EventType::connect_request, EventType::established));
    exchange_data(ends);
    TearDown();
    forget_events();
  }
}

// Annex A14: the REQ has the extended transport type 1, and the target is in the EECN of the REP.
TEST_F(ExternalQueuePair, AnExtendedReliableConnectionHasAnInitiatorAndATarget) {
  sim::CmNetworkConfig config;
  config.managers[1].accepts_xrc = true;
  start(config);
  constexpr ExternalQp kInitiator{.type = QpType::xrc_send, .number = wire::Qpn{0x123}};
  constexpr ExternalQp kTarget{.type = QpType::xrc_recv, .number = wire::Qpn{0x456}};
  EXPECT_FALSE(manager(0).connect(kTarget, {.path = net().path(1)}));
  Connection* active = connect_external(kInitiator, {});
  Connection* passive = await(1, EventType::connect_request).connection;
  EXPECT_EQ(active->qp_type(), QpType::xrc_send);
  EXPECT_EQ(passive->qp_type(), QpType::xrc_recv);
  EXPECT_EQ(passive->remote_qpn(), kInitiator.number);
  const ExternalQp other{.type = QpType::rc, .number = kTarget.number};
  EXPECT_FALSE(manager(1).accept(*passive, other, {}));
  must(manager(1).accept(*passive, kTarget, {}));
  await(0, EventType::connect_response);
  EXPECT_EQ(active->remote_qpn(), kTarget.number);
  EXPECT_TRUE(active->peer().has_srq);
  must(manager(0).confirm(*active));
  await(1, EventType::established);
}

TEST_F(ExternalQueuePair, EachEndIsToldOfTheOther) {
  start();
  const Ends ends = reply(
      QpType::rc,
      {.qp = {.responder_resources = 4, .initiator_depth = 9, .retry_cnt = 5, .rnr_retry = 3}},
      {.responder_resources = 6, .initiator_depth = 2, .rnr_retry = 1});
  EXPECT_EQ(ends.passive->peer().responder_resources, 4);
  EXPECT_EQ(ends.passive->peer().initiator_depth, 9);
  EXPECT_EQ(ends.passive->peer().retry_cnt, 5);
  EXPECT_EQ(ends.passive->peer().rnr_retry, 3);
  EXPECT_TRUE(ends.passive->peer().has_srq);
  EXPECT_FALSE(ends.passive->peer().has_flow_control);
  EXPECT_EQ(ends.active->peer().responder_resources, 6);
  EXPECT_EQ(ends.active->peer().initiator_depth, 2);
  EXPECT_EQ(ends.active->peer().rnr_retry, 1);
  EXPECT_FALSE(ends.active->peer().has_srq);
  EXPECT_TRUE(ends.active->peer().has_flow_control);

  const QpAttributes active = must(ConnectionManager::qp_attributes(*ends.active));
  const QpAttributes passive = must(ConnectionManager::qp_attributes(*ends.passive));
  EXPECT_EQ(active.dest_qp_num, ends.passive_qp->number());
  EXPECT_EQ(passive.dest_qp_num, ends.active_qp->number());
  EXPECT_EQ(active.sq_psn, passive.rq_psn);
  EXPECT_EQ(passive.sq_psn, active.rq_psn);
  EXPECT_EQ(active.max_rd_atomic, 6);
  EXPECT_EQ(active.max_dest_rd_atomic, 4);
  EXPECT_EQ(passive.max_rd_atomic, 2);
  EXPECT_EQ(passive.max_dest_rd_atomic, 6);
}

TEST_F(ExternalQueuePair, BeforeItAcceptsThePassiveEndKnowsWhatIsAskedFor) {
  start();
  const Ends ends = request(QpType::rc, {.qp = {.responder_resources = 4, .initiator_depth = 9}});
  const QpAttributes before = must(ConnectionManager::qp_attributes(*ends.passive));
  EXPECT_EQ(before.max_rd_atomic, 4);
  EXPECT_EQ(before.max_dest_rd_atomic, 9);
  must(manager(1).accept(*ends.passive, external(*ends.passive_qp), {}));
  // The peer is told the number that the queue pair has been moved with.
  EXPECT_EQ(must(ConnectionManager::qp_attributes(*ends.passive)).rq_psn, before.rq_psn);
  await(0, EventType::connect_response);
  EXPECT_EQ(must(ConnectionManager::qp_attributes(*ends.active)).sq_psn, before.rq_psn);
}

TEST_F(ExternalQueuePair, NothingIsKnownBeforeTheReply) {
  start();
  QueuePair& qp = net().make_qp(0);
  const Connection* connection = connect_external(external(qp));
  EXPECT_FALSE(ConnectionManager::qp_attributes(*connection));
  await(1, EventType::connect_request);
}

TEST_F(ExternalQueuePair, TheManagerLeavesItsStateAlone) {
  start();
  const Ends ends = establish();
  must(manager(0).disconnect(*ends.active));
  await(0, EventType::disconnected);
  await(1, EventType::disconnected);
  EXPECT_EQ(ends.active_qp->state(), QpState::rts);
  EXPECT_EQ(ends.passive_qp->state(), QpState::rts);
  await(0, EventType::timewait_exit);
  await(1, EventType::timewait_exit);
}

TEST_F(ExternalQueuePair, OneEndMayBeTheManagers) {
  start();
  QueuePair& active_qp = net().make_qp(0);
  QueuePair& passive_qp = net().make_qp(1);
  Connection* active = connect(active_qp);
  Connection* passive = await(1, EventType::connect_request).connection;
  move(passive_qp, *passive);
  must(manager(1).accept(*passive, external(passive_qp), {}));
  await(0, EventType::established);
  await(1, EventType::established);
  exchange_data({&active_qp, &passive_qp, active, passive});
}

TEST_F(ExternalQueuePair, AReplyCanBeRejected) {
  start();
  const Ends ends = reply();
  const std::array<std::uint8_t, 3> why{1, 2, 3};
  must(manager(0).reject(*ends.active, why));
  EXPECT_EQ(ends.active->state(), State::closed);
  const Event rejected = await(1, EventType::rejected);
  EXPECT_EQ(rejected.reason, RejectReason::consumer);
  EXPECT_EQ(rejected.private_data.view()[2], 3);
}

TEST_F(ExternalQueuePair, AReplyThatNobodyTakesIsRejectedOnRelease) {
  start();
  const Ends ends = reply();
  release(0, ends.active);
  EXPECT_EQ(await(1, EventType::rejected).connection, ends.passive);
}

TEST_F(ExternalQueuePair, OnlyAReplyCanBeConfirmed) {
  start();
  QueuePair& qp = net().make_qp(0);
  Connection* connection = connect_external(external(qp));
  EXPECT_FALSE(manager(0).confirm(*connection));
  EXPECT_FALSE(manager(0).establish(*connection));
  await(1, EventType::connect_request);
  const Ends ends = establish();
  EXPECT_FALSE(manager(0).confirm(*ends.active));
  EXPECT_FALSE(manager(1).confirm(*ends.passive));
}

TEST_F(ExternalQueuePair, WhatIsNoneIsRefused) {
  start();
  EXPECT_FALSE(manager(0).connect(ExternalQp{.type = QpType::ud, .number = {5}}, to_peer()));
  EXPECT_FALSE(manager(0).connect(ExternalQp{.number = wire::kGsiQpn}, to_peer()));
  EXPECT_FALSE(manager(0).connect(ExternalQp{.number = wire::kMulticastQpn}, to_peer()));
  const Ends ends = request();
  EXPECT_FALSE(manager(1).accept(*ends.passive, ExternalQp{.type = QpType::uc, .number = {5}}, {}));
  EXPECT_FALSE(manager(1).accept(*ends.passive, ExternalQp{.number = {0}}, {}));
  EXPECT_EQ(ends.passive->state(), State::req_rcvd);
}

class ExternalQueuePairOfAPeer : public PeerTest {};

TEST_F(ExternalQueuePairOfAPeer, APacketCanTakeTheRtusPlace) {
  start_peer();
  Connection* connection = asked();
  must(manager(0).accept(*connection, ExternalQp{.number = net().make_qp(0).number()}, {}));
  must(manager(0).establish(*connection));
  EXPECT_EQ(connection->state(), State::established);
  must(manager(0).establish(*connection));
  net().settle();
  EXPECT_EQ(count(0, EventType::established), 1u);
}

TEST_F(ExternalQueuePairOfAPeer, ItsRtuIsRepeatedAfterItIsConfirmed) {
  start_peer();
  Connection* connection = open_external();
  EXPECT_THAT(exchange(peer_rep(connection->local_communication_id())), IsEmpty());
  must(manager(0).confirm(*connection));
  const auto answers = exchange(peer_rep(connection->local_communication_id()));
  ASSERT_FALSE(answers.empty());
  EXPECT_EQ(answers.back().attribute(), Attribute::rtu);
  EXPECT_EQ(count(0, EventType::connect_response), 1u);
}

TEST_F(ExternalQueuePairOfAPeer, AQueuePairThatIsConnectedAnewEndsTheReplyThatWaits) {
  start_peer();
  Connection* connection = open_external();
  exchange(peer_rep(connection->local_communication_id()));
  const auto answers = exchange(peer_req(kPeerId + 1));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].attribute(), Attribute::rej);
  const Event rejected = await(0, EventType::rejected);
  EXPECT_EQ(rejected.connection, connection);
  EXPECT_EQ(rejected.reason, RejectReason::stale_connection);
}

class CommunicationIds : public CmTest {};

TEST_F(CommunicationIds, BeginWithTheManagersPrefix) {
  sim::CmNetworkConfig config;
  config.managers[0].id_prefix = 0x81;
  start(config);
  for (unsigned i = 0; i < 20; ++i) {
    EXPECT_EQ(connect(net().make_qp(0))->local_communication_id() >> 24, 0x81u);
    await(1, EventType::connect_request);
  }
}

}  // namespace
}  // namespace rockhopper::roce::cm
