// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// How connections come about between two connection managers (IBTA vol. 1, 12.9.6, 12.9.7).
#include <cstring>
#include <numeric>
#include <tuple>

#include "tests/unit/cm/cm_fixture.h"

namespace rockhopper::roce::cm {
namespace {

using sim::must;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::cm::RejectReason;

class CmConnection : public CmTest, public ::testing::WithParamInterface<std::tuple<QpType, bool>> {
 protected:
  [[nodiscard]] static QpType type() { return std::get<0>(GetParam()); }
  [[nodiscard]] static bool ipv6() { return std::get<1>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Services, CmConnection,
                         ::testing::Combine(::testing::Values(QpType::rc, QpType::uc),
                                            ::testing::Bool()),
                         [](const auto& p) {
                           return std::string(to_string(std::get<0>(p.param))) +
                                  (std::get<1>(p.param) ? "OverIpv6" : "OverIpv4");
                         });

TEST_P(CmConnection, BothQueuePairsAgree) {
  start({.network = {.ipv6 = ipv6()}});
  Pair pair{.active_qp = &net().make_qp(0, type()), .passive_qp = &net().make_qp(1, type())};
  ConnectParameters parameters = to_peer();
  parameters.path_mtu = 2048;
  parameters.path.traffic_class = 0x68;
  parameters.path.flow_label = 0x12345;
  parameters.path.service_level = 3;
  parameters.path.hop_limit = 99;
  parameters.qp = {.access_flags = kAccessRemoteWrite,
                   .responder_resources = 4,
                   .initiator_depth = 9,
                   .retry_cnt = 5,
                   .rnr_retry = 3,
                   .min_rnr_timer = 7,
                   .ack_timeout = 17};
  pair.active = connect(*pair.active_qp, parameters);
  EXPECT_EQ(pair.active->state(), State::req_sent);
  EXPECT_EQ(pair.active_qp->state(), QpState::init);
  pair.passive = await(1, EventType::connect_request).connection;
  EXPECT_EQ(pair.passive->state(), State::req_rcvd);
  EXPECT_FALSE(pair.passive->is_active());
  EXPECT_EQ(pair.passive->qp_type(), type());
  EXPECT_EQ(pair.passive->service_id(), kService);
  must(manager(1).accept(*pair.passive, *pair.passive_qp,
                         {.access_flags = kAccessRemoteRead,
                          .responder_resources = 6,
                          .initiator_depth = 2,
                          .retry_cnt = 1,
                          .rnr_retry = 2,
                          .min_rnr_timer = 11,
                          .ack_timeout = 0}));
  EXPECT_EQ(pair.passive->state(), State::rep_sent);
  await(0, EventType::established);
  await(1, EventType::established);

  const QpAttributes active = pair.active_qp->query();
  const QpAttributes passive = pair.passive_qp->query();
  for (const QpAttributes& end : {active, passive}) {
    EXPECT_EQ(end.qp_state, QpState::rts);
    EXPECT_EQ(end.path_mtu, PathMtu::mtu_2048);
    EXPECT_EQ(end.ah_attr.traffic_class, 0x68);
    EXPECT_EQ(end.ah_attr.flow_label, 0x12345u);
    EXPECT_EQ(end.ah_attr.service_level, 3);
    EXPECT_EQ(end.ah_attr.hop_limit, 99);
  }
  EXPECT_EQ(active.ah_attr.source, net().network().node(0).address());
  EXPECT_EQ(active.ah_attr.destination, net().network().node(1).address());
  EXPECT_EQ(passive.ah_attr.source, active.ah_attr.destination);
  EXPECT_EQ(passive.ah_attr.destination, active.ah_attr.source);
  EXPECT_EQ(active.dest_qp_num, pair.passive_qp->number());
  EXPECT_EQ(passive.dest_qp_num, pair.active_qp->number());
  EXPECT_EQ(active.sq_psn, passive.rq_psn);
  EXPECT_EQ(passive.sq_psn, active.rq_psn);
  EXPECT_EQ(active.qp_access_flags, kAccessRemoteWrite);
  EXPECT_EQ(passive.qp_access_flags, kAccessRemoteRead);
  if (type() == QpType::rc) {
    EXPECT_EQ(active.max_rd_atomic, 6);  // wants 9, the peer serves 6
    EXPECT_EQ(active.max_dest_rd_atomic, 4);
    EXPECT_EQ(passive.max_rd_atomic, 2);       // wants 2, the peer serves 4
    EXPECT_EQ(passive.max_dest_rd_atomic, 6);  // serves 6, the peer wants 9
    EXPECT_EQ(active.retry_cnt, 5);
    EXPECT_EQ(passive.retry_cnt, 5);  // what the REQ asks for
    EXPECT_EQ(active.rnr_retry, 2);   // what the REP asks for
    EXPECT_EQ(passive.rnr_retry, 3);
    EXPECT_EQ(active.min_rnr_timer, 7);
    EXPECT_EQ(passive.min_rnr_timer, 11);
    EXPECT_EQ(active.timeout, 17);
    EXPECT_EQ(passive.timeout, 17);  // as the peer says
  }
  EXPECT_THAT(types(0), ElementsAre(EventType::established));
  EXPECT_EQ(counter(0, "established"), 1u);
  EXPECT_EQ(counter(1, "established"), 1u);
  EXPECT_EQ(counter(0, "repeated_messages"), 0u);
  EXPECT_EQ(counter(1, "repeated_messages"), 0u);
}

// A responder with receives of its own tells credits; one that shares them cannot.
TEST_P(CmConnection, ThePeerIsToldWhetherThereAreCredits) {
  start({.network = {.ipv6 = ipv6()}});
  const auto make_qp = [this](unsigned node, bool has_srq) -> QueuePair& {
    QpInit init = net().make_qp(node, type()).init();
    if (has_srq) {
      init.srq = must(net().engine(node).create_srq(
          {.pd = init.pd, .attributes = {.max_wr = 4, .max_sge = 1}}));
    }
    return *must(net().engine(node).create_qp(init));
  };
  const bool reliable = type() == QpType::rc;
  for (const auto& [active_srq, passive_srq] :
       {std::pair(false, reliable), std::pair(reliable, false)}) {
    SCOPED_TRACE(active_srq);
    Connection& active = *connect(make_qp(0, active_srq), to_peer());
    Connection& passive = *await(1, EventType::connect_request).connection;
    must(manager(1).accept(passive, make_qp(1, passive_srq), {}));
    await(1, EventType::established);
    EXPECT_EQ(passive.peer().has_srq, active_srq);
    EXPECT_EQ(passive.peer().has_flow_control, reliable && !active_srq);
    EXPECT_EQ(active.peer().has_srq, passive_srq);
    EXPECT_EQ(active.peer().has_flow_control, reliable && !passive_srq);
  }
}

// Linux drops MADs with a tag of VLAN 0, which no GID of its own has.
TEST_P(CmConnection, ManagementDatagramsHaveNoPriorityTag) {
  start({.network = {.ipv6 = ipv6(), .priority_tags = true}});
  connect(net().make_qp(0, type()), to_peer());
  manager(0).poll(net().now_ns());
  std::array<rte_mbuf*, 8> burst{};
  const std::uint16_t count =
      net().network().node(0).host().transmit(burst.data(), 8, net().now_ns());
  std::vector<int> ether_types;
  for (rte_mbuf* packet : std::span(burst).first(count)) {
    const auto* frame = rte_pktmbuf_mtod(packet, const std::uint8_t*);
    // The host announces itself, too.
    if (packet->pkt_len > wire::kMadBytes) ether_types.push_back(frame[12] << 8 | frame[13]);
    rte_pktmbuf_free(packet);
  }
  EXPECT_THAT(ether_types, ElementsAre(ipv6() ? RTE_ETHER_TYPE_IPV6 : RTE_ETHER_TYPE_IPV4));
}

TEST_P(CmConnection, DataFlowsBothWays) {
  start({.network = {.ipv6 = ipv6()}});
  const Pair pair = establish(type());
  constexpr std::uint32_t kBytes = 1000;
  for (unsigned node = 0; node < 2; ++node) {
    auto& memory = net().memory(node);
    std::iota(memory.begin(), memory.begin() + kBytes, static_cast<std::uint8_t>(node * 77));
    const Sge receive = net().sge(node, 2048, kBytes);
    QueuePair& qp = node == 0 ? *pair.active_qp : *pair.passive_qp;
    ASSERT_EQ(qp.post_recv({.wr_id = 1, .sg_list = {&receive, 1}}), PostResult::ok);
  }
  for (unsigned node = 0; node < 2; ++node) {
    const Sge send = net().sge(node, 0, kBytes);
    QueuePair& qp = node == 0 ? *pair.active_qp : *pair.passive_qp;
    ASSERT_EQ(qp.post_send({.wr_id = 2, .sg_list = {&send, 1}}), PostResult::ok);
  }
  EXPECT_TRUE(net().run_until([&] { return net().cq(0).size() == 2 && net().cq(1).size() == 2; },
                              net().now_ns() + kLongNs));
  for (unsigned node = 0; node < 2; ++node) {
    EXPECT_EQ(std::memcmp(net().memory(node).data() + 2048, net().memory(1 - node).data(), kBytes),
              0);
  }
}

TEST_P(CmConnection, ThePartitionIsTheOneThatTheRequestNames) {
  start({.network = {.ipv6 = ipv6()}});
  // Neither messages nor data can go by the default partition.
  for (unsigned node = 0; node < 2; ++node) {
    must(engine(node).set_pkey(0, 0));
  }
  Pair pair{.active_qp = &net().make_qp(0, type()), .passive_qp = &net().make_qp(1, type())};
  ConnectParameters parameters = to_peer();
  EXPECT_FALSE(manager(0).connect(*pair.active_qp, parameters)) << "an empty entry";
  parameters.pkey_index = sim::kPartitions[1][0];
  pair.active = connect(*pair.active_qp, parameters);
  pair.passive = await(1, EventType::connect_request).connection;
  EXPECT_EQ(pair.passive->pkey_index(), sim::kPartitions[1][1]);
  must(manager(1).accept(*pair.passive, *pair.passive_qp, {}));
  await(0, EventType::established);
  await(1, EventType::established);
  EXPECT_EQ(pair.active_qp->query().pkey_index, sim::kPartitions[1][0]);
  EXPECT_EQ(pair.passive_qp->query().pkey_index, sim::kPartitions[1][1]);
}

TEST_P(CmConnection, NextHopsAreLookedForFirst) {
  start({.network = {.ipv6 = ipv6(), .static_neighbours = false}});
  establish(type());
  EXPECT_EQ(counter(0, "repeated_messages"), 0u);
}

/// The nth packet of a node is lost; both ends get there nevertheless and with the same events.
class CmLoss : public CmTest,
               public ::testing::WithParamInterface<std::pair<unsigned, std::uint64_t>> {};

std::string lost_message(
    const ::testing::TestParamInfo<std::pair<unsigned, std::uint64_t>>& parameter) {
  static constexpr const char* kNames[2][3] = {{"Req", "Rtu", "Dreq"}, {"Rep", "Drep", ""}};
  return kNames[parameter.param.first][parameter.param.second];
}

INSTANTIATE_TEST_SUITE_P(Each, CmLoss,
                         ::testing::Values(std::pair{0u, 0u}, std::pair{1u, 0u}, std::pair{0u, 1u},
                                           std::pair{0u, 2u}, std::pair{1u, 1u}),
                         lost_message);

TEST_P(CmLoss, OfOneMessageIsMadeGood) {
  start({.network = {.faults = {.dropped_packets = {GetParam()}}}});
  Pair pair = establish();
  must(manager(0).disconnect(*pair.active));
  await(0, EventType::disconnected);
  await(0, EventType::timewait_exit);
  await(1, EventType::timewait_exit);
  EXPECT_THAT(types(0), ElementsAre(EventType::established, EventType::disconnected,
                                    EventType::timewait_exit));
  EXPECT_THAT(types(1), ElementsAre(EventType::connect_request, EventType::established,
                                    EventType::disconnected, EventType::timewait_exit));
  EXPECT_EQ(net().network().node(GetParam().first).selectively_dropped(), 1u);
  EXPECT_GE(counter(0, "repeated_messages") + counter(1, "repeated_messages"), 1u);
  EXPECT_LE(counter(0, "repeated_messages") + counter(1, "repeated_messages"), 3u);
  EXPECT_EQ(counter(0, "timeouts"), 0u);
  EXPECT_EQ(counter(1, "timeouts"), 0u);
}

TEST_F(CmTest, DuplicatesOfEveryMessageChangeNothing) {
  stack::FaultRates twice{.duplicate = 1.0, .duplicate_max_ns = 100'000};
  start({.network = {.faults = {.rates = twice}}});
  Pair pair = establish();
  disconnect(pair);
  EXPECT_THAT(types(0), ElementsAre(EventType::established, EventType::disconnected,
                                    EventType::timewait_exit));
  EXPECT_THAT(types(1), ElementsAre(EventType::connect_request, EventType::established,
                                    EventType::disconnected, EventType::timewait_exit));
  EXPECT_EQ(manager(0).connection_count(), 1u);
  EXPECT_EQ(manager(1).connection_count(), 1u);
}

TEST_F(CmTest, PrivateDataOfEveryMessageArrives) {
  start();
  std::array<std::uint8_t, 224> data;
  std::iota(data.begin(), data.end(), std::uint8_t{1});
  Pair pair{.active_qp = &net().make_qp(0), .passive_qp = &net().make_qp(1)};
  ConnectParameters parameters = to_peer();
  parameters.private_data = std::span(data).first(92);
  connect(*pair.active_qp, parameters);
  const Event request = await(1, EventType::connect_request);
  EXPECT_THAT(request.private_data.view(), ::testing::ElementsAreArray(data.begin(), 92));
  must(manager(1).accept(*request.connection, *pair.passive_qp, {}, std::span(data).first(196)));
  const Event reply = await(0, EventType::established);
  EXPECT_THAT(reply.private_data.view(), ::testing::ElementsAreArray(data.begin(), 196));
}

TEST_F(CmTest, PrivateDataThatIsTooLongIsRefused) {
  start();
  const std::array<std::uint8_t, 256> data{};
  QueuePair& qp = net().make_qp(0);
  ConnectParameters parameters = to_peer();
  parameters.private_data = std::span(data).first(93);
  EXPECT_FALSE(manager(0).connect(qp, parameters));
  EXPECT_EQ(qp.state(), QpState::reset);
  EXPECT_EQ(manager(0).connection_count(), 0u);
  const Pair pair = request();
  EXPECT_FALSE(manager(1).accept(*pair.passive, *pair.passive_qp, {}, std::span(data).first(197)));
  EXPECT_FALSE(manager(1).reject(*pair.passive, std::span(data).first(149)));
  EXPECT_EQ(pair.passive->state(), State::req_rcvd);
  must(manager(1).accept(*pair.passive, *pair.passive_qp, {}));
  await(0, EventType::established);
}

TEST_F(CmTest, ConnectRefusesWhatCannotBe) {
  start();
  const auto code = [&](QueuePair& qp, const ConnectParameters& parameters) {
    const auto result = manager(0).connect(qp, parameters);
    return result ? std::nullopt : std::optional(result.error().code);
  };
  QueuePair& qp = net().make_qp(0);
  ConnectParameters parameters = to_peer();
  parameters.path_mtu = 1500;
  EXPECT_EQ(code(qp, parameters), ErrorCode::invalid_argument);
  parameters = to_peer();
  parameters.path.destination = stack::IpAddress::from_ipv4(0xe0000001);
  EXPECT_EQ(code(qp, parameters), ErrorCode::invalid_argument);
  EXPECT_EQ(code(net().make_qp(0, QpType::ud), to_peer()), ErrorCode::invalid_argument);
  EXPECT_EQ(manager(0).connection_count(), 0u);
  EXPECT_EQ(net().counter(0, "sent_messages"), 0u);
}

TEST_F(CmTest, AcceptRefusesTheWrongServiceAndTheWrongState) {
  start();
  const Pair pair = request(QpType::uc);
  EXPECT_FALSE(manager(1).accept(*pair.passive, net().make_qp(1, QpType::rc), {}));
  EXPECT_FALSE(manager(1).accept(*pair.passive, net().make_qp(1, QpType::ud), {}));
  EXPECT_FALSE(manager(1).disconnect(*pair.passive));
  EXPECT_FALSE(manager(0).disconnect(*pair.active));
  EXPECT_FALSE(manager(0).accept(*pair.active, net().make_qp(0, QpType::uc), {}));
  EXPECT_FALSE(manager(0).reject(*pair.active));
  must(manager(1).accept(*pair.passive, *pair.passive_qp, {}));
  EXPECT_FALSE(manager(1).accept(*pair.passive, net().make_qp(1, QpType::uc), {}));
  EXPECT_FALSE(manager(1).reject(*pair.passive));
  await(0, EventType::established);
}

TEST_F(CmTest, RejectCarriesReasonAndData) {
  start();
  const Pair pair = request();
  const std::array<std::uint8_t, 148> data{9, 8, 7};
  must(manager(1).reject(*pair.passive, data, RejectReason::insufficient_responder_resources));
  const Event rejected = await(0, EventType::rejected);
  EXPECT_EQ(rejected.connection, pair.active);
  EXPECT_EQ(rejected.reason, RejectReason::insufficient_responder_resources);
  EXPECT_THAT(rejected.private_data.view(), ::testing::ElementsAreArray(data));
  EXPECT_EQ(pair.active->state(), State::closed);
  EXPECT_EQ(pair.passive->state(), State::closed);
  EXPECT_EQ(pair.active_qp->state(), QpState::init);
  EXPECT_THAT(types(1), ElementsAre(EventType::connect_request));
  EXPECT_FALSE(manager(0).disconnect(*pair.active));
}

/// The same queue pair may try again: it has never been connected.
TEST_F(CmTest, AfterARejectTheQueuePairConnectsAnew) {
  start();
  Pair pair = request();
  must(manager(1).reject(*pair.passive));
  await(0, EventType::rejected);
  pair.active = connect(*pair.active_qp);
  const Connection* first = pair.passive;
  pair.passive = await(1, EventType::connect_request).connection;
  EXPECT_NE(pair.passive, first);
  must(manager(1).accept(*pair.passive, *pair.passive_qp, {}));
  await(0, EventType::established);
  EXPECT_EQ(counter(1, "stale_connections"), 0u);
}

TEST_F(CmTest, LostRejectIsRepeated) {
  start({.network = {.faults = {.dropped_packets = {{1, 0}}}}});
  const Pair pair = request();
  const std::array<std::uint8_t, 1> data{42};
  must(manager(1).reject(*pair.passive, data));
  const Event rejected = await(0, EventType::rejected);
  EXPECT_EQ(rejected.reason, RejectReason::consumer);
  EXPECT_EQ(rejected.private_data.view()[0], 42);
  EXPECT_EQ(count(1, EventType::connect_request), 1u);
}

TEST_F(CmTest, NobodyListens) {
  start({}, false);
  connect(net().make_qp(0));
  EXPECT_EQ(await(0, EventType::rejected).reason, RejectReason::invalid_service_id);
  EXPECT_THAT(types(1), IsEmpty());
  EXPECT_EQ(manager(1).connection_count(), 0u);
  EXPECT_EQ(counter(1, "sent_rejects"), 1u);
  EXPECT_EQ(counter(0, "rcvd_rejects"), 1u);
}

TEST_F(CmTest, ListenersOfOneServiceAreOne) {
  start({}, false);
  EXPECT_FALSE(manager(1).listen(kService, 0));
  must(manager(1).listen(kService));
  EXPECT_EQ(manager(1).listen(kService).error().code, ErrorCode::busy);
  must(manager(1).listen(kService + 1));
  establish();
  manager(1).stop_listening(kService);
  connect(net().make_qp(0));
  EXPECT_EQ(await(0, EventType::rejected).reason, RejectReason::invalid_service_id);
}

TEST_F(CmTest, RequestsBeyondTheBacklogAreRefused) {
  start({}, false);
  must(manager(1).listen(kService, 2));
  for (int i = 0; i < 3; ++i) {
    connect(net().make_qp(0));
  }
  EXPECT_EQ(await(0, EventType::rejected).reason, RejectReason::no_resources);
  EXPECT_EQ(counter(1, "refused_backlog"), 1u);
  EXPECT_EQ(count(1, EventType::connect_request), 2u);
  // An answer of either kind makes room.
  must(manager(1).reject(*events(1)[0].connection));
  connect(net().make_qp(0));
  must(manager(1).accept(*events(1)[1].connection, net().make_qp(1), {}));
  connect(net().make_qp(0));
  EXPECT_TRUE(net().run_until([&] { return count(1, EventType::connect_request) == 4; },
                              net().now_ns() + kLongNs));
  EXPECT_EQ(counter(1, "refused_backlog"), 1u);
}

/// What waited for a listener that has gone takes no room from the one that comes after it.
TEST_F(CmTest, BacklogOfANewListenerIsItsOwn) {
  start({}, false);
  must(manager(1).listen(kService, 1));
  const Pair old = request();
  manager(1).stop_listening(kService);
  must(manager(1).listen(kService, 1));
  connect(net().make_qp(0));
  await(1, EventType::connect_request);
  must(manager(1).reject(*old.passive));
  connect(net().make_qp(0));
  await(0, EventType::rejected);  // of the old one
  EXPECT_EQ(await(0, EventType::rejected).reason, RejectReason::no_resources);
}

TEST_F(CmTest, ConnectionsAreLimited) {
  sim::CmNetworkConfig config;
  config.managers[0].max_connections = 3;
  config.managers[1].max_connections = 2;
  start(config);
  establish();
  establish();
  connect(net().make_qp(0));
  EXPECT_EQ(await(0, EventType::rejected).reason, RejectReason::no_resources);
  EXPECT_EQ(counter(1, "refused_limit"), 1u);
  const auto fourth = manager(0).connect(net().make_qp(0), to_peer());
  ASSERT_FALSE(fourth);
  EXPECT_EQ(fourth.error().code, ErrorCode::exhausted);
}

/// However short the peer's time to answer is, a request that has not left uses none of it up.
TEST_F(CmTest, LostNeighbourMessagesUseUpNoRetries) {
  const ConnectionManagerConfig hasty{.response_timeout = 8};  // 1 ms
  start({.network = {.static_neighbours = false, .faults = {.dropped_packets = {{0, 0}}}},
         .managers = {hasty, hasty}});
  establish();
  EXPECT_EQ(net().network().node(0).selectively_dropped(), 1u);
  EXPECT_LE(counter(0, "repeated_messages"), 1u) << "one if its time was up just then";
}

TEST_F(CmTest, UnansweredRequestIsRepeatedAndGivenUp) {
  start({.managers = {ConnectionManagerConfig{.response_timeout = 16, .max_retries = 4},
                      ConnectionManagerConfig{}}});
  net().network().cut(true);
  const std::uint64_t start_ns = net().now_ns();
  Connection* connection = connect(net().make_qp(0));
  EXPECT_EQ(await(0, EventType::unreachable).connection, connection);
  const std::uint64_t waited_ns = net().now_ns() - start_ns;
  EXPECT_GE(waited_ns, 5 * timeout_ns(16));
  EXPECT_LT(waited_ns, 6 * timeout_ns(16));
  EXPECT_EQ(counter(0, "repeated_messages"), 4u);
  EXPECT_EQ(counter(0, "timeouts"), 1u);
  EXPECT_EQ(connection->state(), State::closed);
  net().network().cut(false);
}

/// MRA (IBTA vol. 1, 12.6.6): an application that takes its time is waited for, longer than all
/// retries last.
TEST_F(CmTest, SlowApplicationIsWaitedFor) {
  start();
  const Pair pair = request();
  const std::uint64_t patience_ns = 16 * timeout_ns(18);
  net().run_for(patience_ns + patience_ns / 2);
  EXPECT_THAT(types(0), IsEmpty());
  EXPECT_THAT(types(1), ElementsAre(EventType::connect_request));
  EXPECT_GT(counter(1, "duplicate_messages"), 0u);
  // A MRA is worth four retries and more.
  EXPECT_LT(counter(0, "repeated_messages"), 8u);
  must(manager(1).accept(*pair.passive, *pair.passive_qp, {}));
  await(0, EventType::established);
  await(1, EventType::established);
}

/// An application that never answers ends in the same way at both ends: the listener does not
/// forget the request before the peer has given up.
TEST_F(CmTest, ApplicationThatNeverAnswers) {
  start();
  const Pair pair = request();
  await(0, EventType::unreachable);
  EXPECT_NE(pair.active_qp->state(), QpState::rts);
  net().run_for(60 * kSecondNs);
  EXPECT_THAT(types(0), ElementsAre(EventType::unreachable));
  ASSERT_EQ(types(1).size(), 2u);
  EXPECT_EQ(events(1)[1].connection, pair.passive);
  EXPECT_EQ(pair.passive->state(), State::closed);
  EXPECT_FALSE(manager(1).accept(*pair.passive, *pair.passive_qp, {}));
}

TEST_F(CmTest, ApplicationAnswersAtTheLastMoment) {
  sim::CmNetworkConfig config;
  config.managers[0].max_retries = 2;
  start(config);
  const Pair pair = request();
  // Just before the active side would give up.
  for (std::uint64_t now_ns = 0; types(0).empty() && now_ns < 100 * kSecondNs;
       now_ns += kSecondNs / 4) {
    EXPECT_EQ(pair.passive->state(), State::req_rcvd);
    net().run_for(kSecondNs / 4);
  }
  EXPECT_THAT(types(0), ElementsAre(EventType::unreachable));
}

TEST_F(CmTest, LostReadyToUseAndNoTimeOut) {
  // All RTUs get lost: the passive side gives up and tells the active one.
  start({.network = {.faults = {.dropped_packets = {{0, 1}, {0, 2}, {0, 3}}}},
         .managers = {ConnectionManagerConfig{.max_retries = 2}, ConnectionManagerConfig{}}});
  const Pair pair = request();
  must(manager(1).accept(*pair.passive, *pair.passive_qp, {}));
  await(0, EventType::established);
  EXPECT_EQ(await(1, EventType::unreachable).connection, pair.passive);
  EXPECT_EQ(pair.passive_qp->state(), QpState::err);
  EXPECT_EQ(await(0, EventType::disconnected).connection, pair.active);
  EXPECT_EQ(pair.active_qp->state(), QpState::err);
  await(0, EventType::timewait_exit);
  await(1, EventType::timewait_exit);
}

TEST_F(CmTest, DestroyedQueuePairOfTheActiveSide) {
  start();
  const Pair pair = request();
  engine(0).destroy_qp(pair.active_qp);
  must(manager(1).accept(*pair.passive, *pair.passive_qp, {}));
  EXPECT_EQ(await(0, EventType::connect_error).connection, pair.active);
  EXPECT_EQ(await(1, EventType::rejected).connection, pair.passive);
  EXPECT_EQ(pair.passive_qp->state(), QpState::err);
}

TEST_F(CmTest, QueuePairThatWasResetMeanwhile) {
  start();
  const Pair pair = request();
  must(pair.active_qp->modify({.qp_state = QpState::reset}, kQpState));
  must(manager(1).accept(*pair.passive, *pair.passive_qp, {}));
  await(0, EventType::connect_error);
  await(1, EventType::rejected);
}

TEST_F(CmTest, QueuePairHasOneConnectionAtATime) {
  start();
  Pair pair = request();
  const auto second = manager(0).connect(
      *pair.active_qp, {.path = pair.active->path(), .service_id = pair.active->service_id()});
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::invalid_state);
  EXPECT_EQ(manager(0).connection_count(), 1u);
  // The same queue pair again, once that connection is over.
  must(manager(1).reject(*pair.passive));
  await(0, EventType::rejected);
  connect(*pair.active_qp);
  await(1, EventType::connect_request);
}

TEST_F(CmTest, ConnectionWhoseQueuePairHasAnotherOne) {
  start();
  const Pair pair = establish();
  must(pair.active_qp->modify({.qp_state = QpState::reset}, kQpState));
  const Connection* second = connect(*pair.active_qp);
  // The peer takes the first for stale and ends it: that does not touch the queue pair, which is
  // another connection's by now.
  EXPECT_EQ(await(0, EventType::disconnected).connection, pair.active);
  EXPECT_EQ(await(0, EventType::rejected).connection, second);
  EXPECT_EQ(pair.active_qp->state(), QpState::init);
}

TEST_F(CmTest, DestroyedQueuePairsOfAConnection) {
  start();
  Pair pair = establish();
  engine(0).destroy_qp(pair.active_qp);
  engine(1).destroy_qp(pair.passive_qp);
  disconnect(pair);
}

TEST_F(CmTest, ManyAtOnce) {
  sim::CmNetworkConfig config;
  config.network.static_neighbours = false;
  start(config);
  constexpr unsigned kPairs = 60;
  net().on_event = [this, inner = net().on_event](unsigned node, const Event& event) {
    inner(node, event);
    if (event.type == EventType::connect_request) {
      must(manager(node).accept(*event.connection, net().make_qp(node), {}));
    }
  };
  for (unsigned i = 0; i < kPairs; ++i) {
    connect(net().make_qp(0));
  }
  EXPECT_TRUE(net().run_until(
      [&] {
        return count(0, EventType::established) == kPairs &&
               count(1, EventType::established) == kPairs;
      },
      net().now_ns() + kLongNs));
  EXPECT_EQ(counter(0, "repeated_messages"), 0u);
}

}  // namespace
}  // namespace rockhopper::roce::cm
