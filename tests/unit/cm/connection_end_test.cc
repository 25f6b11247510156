// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// How connections end: DREQ and DREP, TIMEWAIT, stale connections, release() (IBTA vol. 1, 12.4.1,
// 12.9.8).
#include "tests/unit/cm/cm_fixture.h"

namespace rockhopper::roce::cm {
namespace {

using sim::must;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::cm::RejectReason;

/// Which node disconnects.
class CmDisconnect : public CmTest, public ::testing::WithParamInterface<unsigned> {};
INSTANTIATE_TEST_SUITE_P(By, CmDisconnect, ::testing::Values(0u, 1u),
                         [](const auto& p) { return p.param == 0 ? "Active" : "Passive"; });

TEST_P(CmDisconnect, EndsBothInTimewait) {
  start();
  const Pair pair = establish();
  const Sge sge = net().sge(0, 0, 8);
  ASSERT_EQ(pair.active_qp->post_recv({.wr_id = 1, .sg_list = {&sge, 1}}), PostResult::ok);
  forget_events();
  Connection& ending = GetParam() == 0 ? *pair.active : *pair.passive;
  must(manager(GetParam()).disconnect(ending));
  EXPECT_EQ(ending.state(), State::dreq_sent);
  EXPECT_EQ((GetParam() == 0 ? pair.active_qp : pair.passive_qp)->state(), QpState::err);
  const std::uint64_t start_ns = net().now_ns();
  await(0, EventType::disconnected);
  await(1, EventType::disconnected);
  EXPECT_EQ(pair.active->state(), State::timewait);
  EXPECT_EQ(pair.passive->state(), State::timewait);
  EXPECT_EQ(pair.active_qp->state(), QpState::err);
  EXPECT_EQ(pair.passive_qp->state(), QpState::err);
  EXPECT_EQ(net().cq(0).size(), 1u);  // flushed
  await(0, EventType::timewait_exit);
  await(1, EventType::timewait_exit);
  // Twice the local ACK timeout, 4.096 us * 2^14 (12.9.8.4).
  EXPECT_GE(net().now_ns() - start_ns, 2 * timeout_ns(14));
  EXPECT_EQ(pair.active->state(), State::closed);
  EXPECT_EQ(pair.passive->state(), State::closed);
  for (unsigned node = 0; node < 2; ++node) {
    EXPECT_THAT(types(node), ElementsAre(EventType::disconnected, EventType::timewait_exit));
    EXPECT_EQ(counter(node, "disconnected"), 1u);
  }
}

TEST_P(CmDisconnect, UnansweredIsGivenUp) {
  sim::CmNetworkConfig config;
  for (auto& manager : config.managers) {
    manager.response_timeout = 16;
    manager.max_retries = 3;
  }
  start(config);
  const Pair pair = establish();
  net().network().cut(true);
  const unsigned node = GetParam();
  const std::uint64_t start_ns = net().now_ns();
  must(manager(node).disconnect(node == 0 ? *pair.active : *pair.passive));
  await(node, EventType::disconnected);
  EXPECT_GE(net().now_ns() - start_ns, 4 * timeout_ns(16));
  EXPECT_LT(net().now_ns() - start_ns, 5 * timeout_ns(16));
  EXPECT_EQ(counter(node, "timeouts"), 1u);
  await(node, EventType::timewait_exit);
  EXPECT_EQ((node == 0 ? pair.passive : pair.active)->state(), State::established);
  net().network().cut(false);
}

/// DREPs that get lost are given again, also when TIMEWAIT is over.
TEST_P(CmDisconnect, LostRepliesAreGivenAgain) {
  const unsigned ending = GetParam();
  // What comes before: REQ, RTU of node 0, REP of node 1.
  const std::uint64_t first = ending == 0 ? 1 : 2;
  start(
      {.network = {.faults = {.dropped_packets = {{1 - ending, first}, {1 - ending, first + 1}}}}});
  const Pair pair = establish();
  const std::uint64_t start_ns = net().now_ns();
  must(manager(ending).disconnect(ending == 0 ? *pair.active : *pair.passive));
  await(ending, EventType::disconnected);
  EXPECT_EQ(counter(ending, "timeouts"), 0u);
  EXPECT_EQ(counter(ending, "repeated_messages"), 2u);
  EXPECT_LT(net().now_ns() - start_ns, 3 * timeout_ns(18));
}

TEST_F(CmTest, DisconnectsThatCross) {
  start();
  const Pair pair = establish();
  must(manager(0).disconnect(*pair.active));
  must(manager(1).disconnect(*pair.passive));
  must(manager(1).disconnect(*pair.passive));  // no effect
  await(0, EventType::timewait_exit);
  await(1, EventType::timewait_exit);
  for (unsigned node = 0; node < 2; ++node) {
    EXPECT_EQ(count(node, EventType::disconnected), 1u);
    EXPECT_EQ(counter(node, "disconnected"), 1u);
    EXPECT_EQ(counter(node, "repeated_messages"), 0u);
  }
}

TEST_F(CmTest, DisconnectBeforeTheReadyToUse) {
  start({.network = {.faults = {.dropped_packets = {{0, 1}}}}});
  const Pair pair = request();
  must(manager(1).accept(*pair.passive, *pair.passive_qp, {}));
  await(0, EventType::established);
  EXPECT_EQ(pair.passive->state(), State::rep_sent);
  must(manager(1).disconnect(*pair.passive));
  await(0, EventType::disconnected);
  await(1, EventType::disconnected);
  EXPECT_EQ(counter(1, "timeouts"), 0u);
}

/// The REP is lost and the passive side gives up: the active one, which knows nothing of it yet,
/// learns it from the DREQ.
TEST_F(CmTest, DisconnectBeforeTheReplyArrives) {
  start({.network = {.faults = {.dropped_packets = {{1, 0}}}}});
  const Pair pair = request();
  must(manager(1).accept(*pair.passive, *pair.passive_qp, {}));
  net().settle();
  must(manager(1).disconnect(*pair.passive));
  EXPECT_EQ(await(0, EventType::rejected).connection, pair.active);
  await(1, EventType::disconnected);
  EXPECT_EQ(counter(0, "timeouts"), 0u);
  EXPECT_EQ(counter(1, "timeouts"), 0u);
}

TEST_F(CmTest, TimewaitAnswersRepetitions) {
  sim::CmNetworkConfig config;
  // Shorter than TIMEWAIT, so that a second DREQ finds the connection in it.
  for (auto& manager : config.managers) {
    manager.response_timeout = 12;
  }
  config.network.faults.dropped_packets = {{1, 1}};
  start(config);
  const Pair pair = establish();
  must(manager(0).disconnect(*pair.active));
  await(0, EventType::disconnected);
  EXPECT_EQ(pair.passive->state(), State::timewait);
  EXPECT_EQ(counter(1, "duplicate_messages"), 1u);
  EXPECT_EQ(count(1, EventType::disconnected), 1u);
}

/// A peer that has forgotten the connection uses the same queue pair again (12.4.1).
TEST_F(CmTest, StaleConnectionIsEnded) {
  start();
  const Pair pair = establish();
  // As if node 0 had started anew: its manager knows nothing more of the connection.
  net().network().cut(true);
  release(0, pair.active);
  net().run_for(60 * kSecondNs);
  EXPECT_EQ(manager(0).connection_count(), 0u);
  net().network().cut(false);
  EXPECT_EQ(pair.passive->state(), State::established);
  must(pair.active_qp->modify({.qp_state = QpState::reset}, kQpState));
  connect(*pair.active_qp);
  EXPECT_EQ(await(0, EventType::rejected).reason, RejectReason::stale_connection);
  EXPECT_EQ(await(1, EventType::disconnected).connection, pair.passive);
  EXPECT_EQ(pair.passive_qp->state(), QpState::err);
  EXPECT_EQ(counter(1, "stale_connections"), 1u);
  await(1, EventType::timewait_exit);
  // Then it works.
  connect(*pair.active_qp);
  const Event again = await(1, EventType::connect_request);
  const Event second =
      again.connection == pair.passive ? await(1, EventType::connect_request) : again;
  must(manager(1).accept(*second.connection, net().make_qp(1), {}));
  await(0, EventType::established);
}

/// Likewise before the application has answered: the old request will not be accepted by anybody.
TEST_F(CmTest, RequestOfAForgottenPeerMakesWayForItsNext) {
  start();
  net().network().cut(false);
  const Pair pair = request();
  net().network().cut(true);
  release(0, pair.active);
  net().settle();
  net().network().cut(false);
  Connection* second = connect(*pair.active_qp);
  EXPECT_EQ(await(0, EventType::rejected).connection, second);
  EXPECT_EQ(await(1, EventType::rejected).reason, RejectReason::stale_connection);
  EXPECT_EQ(pair.passive->state(), State::closed);
  connect(*pair.active_qp);
  const Connection* passive = await(1, EventType::connect_request).connection;
  EXPECT_NE(passive, pair.passive);
}

/// A connection that is over and not yet released stands in nobody's way.
TEST_F(CmTest, ClosedConnectionIsNoStaleOne) {
  start();
  Pair pair = establish();
  disconnect(pair);
  must(pair.active_qp->modify({.qp_state = QpState::reset}, kQpState));
  connect(*pair.active_qp);
  EXPECT_TRUE(net().run_until([&] { return count(1, EventType::connect_request) == 2; },
                              net().now_ns() + kLongNs));
  EXPECT_EQ(counter(1, "stale_connections"), 0u);
}

// --- release() in every state; TearDown() sees that nothing is left over ---------------------

TEST_F(CmTest, ReleaseInReqSentTellsThePeer) {
  start();
  const Pair pair = request();
  release(0, pair.active);
  EXPECT_EQ(manager(0).connection_count(), 0u);
  const Event rejected = await(1, EventType::rejected);
  EXPECT_EQ(rejected.connection, pair.passive);
  EXPECT_EQ(rejected.reason, RejectReason::timeout);
  EXPECT_FALSE(manager(1).accept(*pair.passive, *pair.passive_qp, {}));
}

TEST_F(CmTest, ReplyToAReleasedRequestIsRejected) {
  start();
  const Pair pair = request();
  net().network().cut(true);
  release(0, pair.active);
  net().settle();
  net().network().cut(false);
  must(manager(1).accept(*pair.passive, *pair.passive_qp, {}));
  EXPECT_EQ(await(1, EventType::rejected).reason, RejectReason::invalid_communication_id);
  EXPECT_EQ(pair.passive_qp->state(), QpState::err);
  EXPECT_THAT(types(0), IsEmpty());
}

TEST_F(CmTest, ReleaseInReqRcvdRejects) {
  start();
  const Pair pair = request();
  release(1, pair.passive);
  EXPECT_EQ(manager(1).connection_count(), 0u);
  EXPECT_EQ(await(0, EventType::rejected).reason, RejectReason::consumer);
}

TEST_F(CmTest, ReleaseInRepSentDisconnects) {
  start({.network = {.faults = {.dropped_packets = {{0, 1}}}}});
  const Pair pair = request();
  must(manager(1).accept(*pair.passive, *pair.passive_qp, {}));
  await(0, EventType::established);
  release(1, pair.passive);
  EXPECT_EQ(pair.passive_qp->state(), QpState::err);
  await(0, EventType::disconnected);
  EXPECT_THAT(types(1), ElementsAre(EventType::connect_request));
}

TEST_P(CmDisconnect, ByReleaseInEstablished) {
  start();
  const Pair pair = establish();
  forget_events();
  const unsigned node = GetParam();
  release(node, node == 0 ? pair.active : pair.passive);
  EXPECT_EQ(manager(node).connection_count(), 1u);  // until TIMEWAIT is over
  await(1 - node, EventType::disconnected);
  await(1 - node, EventType::timewait_exit);
  EXPECT_TRUE(net().run_to_rest(net().now_ns() + kLongNs));
  EXPECT_EQ(manager(node).connection_count(), 0u);
  EXPECT_THAT(types(node), IsEmpty());
}

TEST_P(CmDisconnect, AndReleaseInDreqSent) {
  start();
  const Pair pair = establish();
  const unsigned node = GetParam();
  Connection* connection = node == 0 ? pair.active : pair.passive;
  must(manager(node).disconnect(*connection));
  release(node, connection);
  await(1 - node, EventType::disconnected);
  EXPECT_EQ(count(node, EventType::disconnected), 0u);
}

TEST_P(CmDisconnect, AndReleaseInTimewait) {
  start();
  const Pair pair = establish();
  const unsigned node = GetParam();
  Connection* connection = node == 0 ? pair.active : pair.passive;
  must(manager(node).disconnect(*connection));
  await(node, EventType::disconnected);
  EXPECT_EQ(connection->state(), State::timewait);
  release(node, connection);
  EXPECT_EQ(manager(node).connection_count(), 1u);
  await(1 - node, EventType::timewait_exit);
  EXPECT_EQ(count(node, EventType::timewait_exit), 0u);
}

TEST_F(CmTest, ReleaseInClosed) {
  start();
  Pair pair = establish();
  disconnect(pair);
  for (unsigned node = 0; node < 2; ++node) {
    EXPECT_EQ(manager(node).connection_count(), 1u);
    release(node, node == 0 ? pair.active : pair.passive);
    EXPECT_EQ(manager(node).connection_count(), 0u);
  }
}

/// Events of a released connection that nobody has taken yet would name what is gone.
TEST_F(CmTest, ReleaseTakesItsEventsAlong) {
  start();
  const Pair pair = establish();
  net().on_event = nullptr;  // from here on the test takes the events itself
  must(manager(0).disconnect(*pair.active));
  // Moves packets without taking events.
  for (int i = 0; i < 10; ++i) {
    manager(0).poll(net().now_ns());
    manager(1).poll(net().now_ns());
    while (net().network().poll()) {
    }
    (void)net().network().advance(net().now_ns() + 10'000);
  }
  EXPECT_EQ(pair.active->state(), State::timewait);
  release(0, pair.active);
  EXPECT_FALSE(manager(0).poll_event().has_value());
}

/// A manager that ends says nothing and leaves nothing behind, whatever its connections are in.
TEST_F(CmTest, ManagerEndsWithConnectionsInEveryState) {
  start();
  establish();
  request();
  const Pair waiting = request();
  must(manager(1).accept(*waiting.passive, *waiting.passive_qp, {}));
  const Pair ending = establish();
  must(manager(0).disconnect(*ending.active));
  (void)must(manager(0).resolve({.path = net().path(0), .service_id = kService}));
  net().settle();
  connect(net().make_qp(0));
  net_.reset();  // TearDown() counts the mbufs
  EXPECT_EQ(pools_in_use(), 0u);
}

}  // namespace
}  // namespace rockhopper::roce::cm
