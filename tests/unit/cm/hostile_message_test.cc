// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// One connection manager against a peer that sends what it should not.
#include <algorithm>
#include <functional>

#include "tests/unit/cm/peer_fixture.h"

namespace rockhopper::roce::cm {
namespace {

using sim::must;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::cm::AboutMessage;
using wire::cm::Attribute;
using wire::cm::RejectReason;
using wire::cm::SidrStatus;

class CmHostile : public PeerTest {
 protected:
  /// A path to node 0 from an address of node 1 that no connection knows.
  AddressVector from_elsewhere() {
    const auto address = stack::IpAddress::from_ipv4(0x0a000063);
    must(net().network().node(1).host().add_address(address, 24));
    AddressVector path = net().path(1);
    path.source = address;
    return path;
  }
  /// The reason of the REJ that is the only answer to `req`.
  RejectReason refused(const wire::cm::Req& req) {
    const auto answers = exchange(req);
    EXPECT_EQ(answers.size(), 1u);
    if (answers.size() != 1 || answers[0].attribute() != Attribute::rej) {
      ADD_FAILURE() << "no REJ";
      return {};
    }
    const auto rej = answers[0].as<wire::cm::Rej>();
    EXPECT_EQ(rej.remote_communication_id, req.local_communication_id);
    EXPECT_EQ(rej.about, AboutMessage::req);
    EXPECT_EQ(answers[0].header.transaction_id, 1u);
    EXPECT_EQ(manager(0).connection_count(), 0u);
    EXPECT_THAT(types(0), IsEmpty());
    return rej.reason;
  }
};

TEST_F(CmHostile, OtherManagementDatagramsAreCounted) {
  start_peer();
  const auto good = sim::MadPeer::make(peer_req());
  struct {
    std::size_t offset;
    std::uint8_t value;
  } const damages[] = {{0, 0}, {0, 2}, {1, 0x03}, {1, 0x81}, {2, 1}, {2, 3}, {3, 0x01}, {3, 0x83}};
  std::uint64_t expected = 0;
  for (const auto& damage : damages) {
    auto mad = good;
    mad[damage.offset] = damage.value;
    EXPECT_THAT(exchange_mad(mad), IsEmpty());
    EXPECT_EQ(counter(0, "unsupported_mads"), ++expected);
  }
  EXPECT_EQ(counter(0, "rcvd_messages"), 0u);
  expected = 0;
  for (const int attribute : {0x0000, 0x000f, 0x0019, 0x001a, 0x001b, 0x1000, 0xffff}) {
    auto mad = good;
    mad[16] = static_cast<std::uint8_t>(attribute >> 8);
    mad[17] = static_cast<std::uint8_t>(attribute);
    EXPECT_THAT(exchange_mad(mad), IsEmpty());
    EXPECT_EQ(counter(0, "unsupported_messages"), ++expected);
  }
  EXPECT_EQ(manager(0).connection_count(), 0u);
}

TEST_F(CmHostile, OnlyQueuePairOneIsListenedTo) {
  start_peer();
  QueuePair& qp = net().make_qp(1, QpType::ud);
  must(qp.bring_up({.qkey = wire::kGsiQkey}, QpState::rts));
  AddressHandle* ah = must(engine(1).create_ah(qp.init().pd, net().path(1)));
  const auto mad = sim::MadPeer::make(peer_req());
  std::copy(mad.begin(), mad.end(), net().memory(1).begin());
  const Sge sge = net().sge(1, 0, wire::kMadBytes);
  ASSERT_EQ(qp.post_send({.sg_list = {&sge, 1},
                          .ah = ah,
                          .remote_qpn = wire::kGsiQpn,
                          .remote_qkey = wire::kGsiQkey}),
            PostResult::ok);
  net().run_for(10'000);
  EXPECT_EQ(counter(0, "bad_source_mads"), 1u);
  EXPECT_EQ(counter(0, "rcvd_messages"), 0u);
  engine(1).destroy_ah(ah);
}

TEST_F(CmHostile, RequestsInAnothersNameAreDropped) {
  start_peer();
  wire::cm::Req forged = peer_req();
  forged.primary_local_gid[15] ^= 1;
  EXPECT_THAT(exchange(forged), IsEmpty());
  forged = peer_req();
  forged.primary_remote_gid[15] ^= 1;
  EXPECT_THAT(exchange(forged), IsEmpty());
  EXPECT_EQ(counter(0, "bad_address_messages"), 2u);
  EXPECT_EQ(manager(0).connection_count(), 0u);
}

TEST_F(CmHostile, RequestsThatCannotBeServed) {
  start_peer();
  using R = RejectReason;
  struct {
    std::function<void(wire::cm::Req&)> change;
    R reason;
  } const rows[] = {
      {[](auto& req) { req.service_id ^= 1; }, R::invalid_service_id},
      {[](auto& req) { req.transport_service = wire::cm::TransportService::rd; },
       R::invalid_transport_service_type},
      {[](auto& req) { req.transport_service = wire::cm::TransportService::extended; },
       R::invalid_transport_service_type},
      {[](auto& req) {
         req.transport_service = wire::cm::TransportService::extended;
         req.extended_transport = wire::cm::kExtendedXrc;
       },
       R::invalid_transport_service_type},
      {[](auto& req) { req.pkey = 0x8555; }, R::primary_remote_port_gid},
      {[](auto& req) { req.pkey = 0; }, R::primary_remote_port_gid},
      {[](auto& req) { req.path_mtu_code = 0; }, R::invalid_path_mtu},
      {[](auto& req) { req.path_mtu_code = 6; }, R::invalid_path_mtu},
      {[](auto& req) { req.path_mtu_code = 15; }, R::invalid_path_mtu},
      {[](auto& req) { req.local_qpn = wire::Qpn{0}; }, R::unsupported_request},
      {[](auto& req) { req.local_qpn = wire::Qpn{1}; }, R::unsupported_request},
      {[](auto& req) { req.local_qpn = wire::Qpn{0xffffff}; }, R::unsupported_request},
  };
  std::uint64_t rejects = 0;
  for (const auto& row : rows) {
    wire::cm::Req req = peer_req();
    row.change(req);
    EXPECT_EQ(refused(req), row.reason);
    EXPECT_EQ(counter(0, "sent_rejects"), ++rejects);
  }
}

TEST_F(CmHostile, FloodOfRequestsStopsAtTheBacklog) {
  sim::CmNetworkConfig config;
  config.bare_peer = true;
  start(config);
  constexpr std::uint32_t kBacklog = 10;
  constexpr std::uint32_t kFlood = 200;
  must(manager(0).listen(kService, kBacklog));
  for (std::uint32_t i = 0; i < kFlood; ++i) {
    net().peer().send(net().path(1), sim::MadPeer::make(peer_req(1 + i, wire::Qpn{100 + i})));
  }
  net().run_for(1'000'000);
  EXPECT_EQ(count(0, EventType::connect_request), kBacklog);
  EXPECT_EQ(manager(0).connection_count(), kBacklog);
  EXPECT_EQ(counter(0, "refused_backlog"), kFlood - kBacklog);
  EXPECT_EQ(net().peer().take().size(), kFlood - kBacklog);
  // They go when the peer would have given up.
  net().run_for(60 * kSecondNs);
  EXPECT_EQ(counter(0, "timeouts"), kBacklog);
  exchange(peer_req());
  EXPECT_EQ(events(0).back().type, EventType::connect_request);
}

TEST_F(CmHostile, FloodOfRequestsStopsAtTheLimit) {
  sim::CmNetworkConfig config;
  config.managers[0].max_connections = 20;
  start_peer(config);
  for (std::uint32_t i = 0; i < 100; ++i) {
    net().peer().send(net().path(1), sim::MadPeer::make(peer_req(1 + i, wire::Qpn{100 + i})));
  }
  net().run_for(1'000'000);
  EXPECT_EQ(manager(0).connection_count(), 20u);
  EXPECT_EQ(counter(0, "refused_limit"), 80u);
  const auto result = manager(0).connect(net().make_qp(0), to_peer());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::exhausted);
}

/// Stations that do not answer ARP do not keep those that do waiting.
TEST_F(CmHostile, AnswersToNowhereDoNotSilenceTheManager) {
  start_peer();
  const AddressVector elsewhere = from_elsewhere();
  for (std::uint32_t i = 0; i < 1000; ++i) {
    wire::cm::Req req = peer_req(1 + i);
    req.service_id = 1;
    req.primary_local_gid = elsewhere.source.bytes;
    net().peer().send(elsewhere, sim::MadPeer::make(req));
    if (i % 100 == 99) net().run_for(100'000);
  }
  EXPECT_EQ(exchange(peer_req(5000, wire::Qpn{5000})).size(), 0u);
  EXPECT_EQ(count(0, EventType::connect_request), 1u);
}

TEST_F(CmHostile, DuplicateRequestMakesNoSecondConnection) {
  start_peer();
  const auto mad = sim::MadPeer::make(peer_req());
  for (int i = 0; i < 20; ++i) {
    net().peer().send(net().path(1), mad);
  }
  net().run_for(100'000);
  EXPECT_THAT(types(0), ElementsAre(EventType::connect_request));
  EXPECT_EQ(manager(0).connection_count(), 1u);
  EXPECT_EQ(counter(0, "duplicate_messages"), 19u);
}

/// The same communication ID in a request that is another one: the peer has started anew and has
/// forgotten the connection.
TEST_F(CmHostile, ReusedCommunicationIdIsNoDuplicate) {
  start_peer();
  Connection* connection = asked();
  accept(*connection);
  exchange(wire::cm::Rtu{.local_communication_id = kPeerId,
                         .remote_communication_id = connection->local_communication_id()});
  wire::cm::Req other = peer_req(kPeerId, wire::Qpn{0x3333});
  const auto answers = exchange(other);
  ASSERT_EQ(answers.size(), 2u);  // the DREQ of the old one
  std::vector<Attribute> attributes{answers[0].attribute(), answers[1].attribute()};
  EXPECT_THAT(attributes, ::testing::UnorderedElementsAre(Attribute::rej, Attribute::dreq));
  for (const auto& answer : answers) {
    if (answer.attribute() != Attribute::rej) continue;
    EXPECT_EQ(answer.as<wire::cm::Rej>().reason, RejectReason::duplicate_local_communication_id);
  }
  EXPECT_EQ(counter(0, "stale_connections"), 1u);
  EXPECT_EQ(qp_->state(), QpState::err);
}

TEST_F(CmHostile, MessagesFromAnotherAddressAreNotForTheConnection) {
  start_peer();
  Connection* connection = asked();
  accept(*connection);
  const std::uint32_t to = connection->local_communication_id();
  const AddressVector elsewhere = from_elsewhere();
  std::uint64_t expected = 0;
  const auto expect_ignored = [&](const auto& message) {
    exchange_mad(elsewhere, sim::MadPeer::make(message));
    EXPECT_EQ(counter(0, "bad_address_messages"), ++expected);
    EXPECT_EQ(connection->state(), State::rep_sent);
    EXPECT_EQ(qp_->state(), QpState::rts);
  };
  expect_ignored(wire::cm::Rtu{.local_communication_id = kPeerId, .remote_communication_id = to});
  expect_ignored(wire::cm::Rej{.local_communication_id = kPeerId,
                               .remote_communication_id = to,
                               .reason = RejectReason::consumer});
  expect_ignored(wire::cm::Dreq{.local_communication_id = kPeerId,
                                .remote_communication_id = to,
                                .remote_qpn = connection->local_qpn()});
  expect_ignored(wire::cm::Drep{.local_communication_id = kPeerId, .remote_communication_id = to});
  expect_ignored(wire::cm::Mra{.local_communication_id = kPeerId,
                               .remote_communication_id = to,
                               .about = AboutMessage::rep});
  expect_ignored(peer_rep(to));
  // Nor can it give up what is not its own.
  exchange_mad(elsewhere, sim::MadPeer::make(wire::cm::Rej{.local_communication_id = kPeerId,
                                                           .about = AboutMessage::other,
                                                           .reason = RejectReason::timeout}));
  EXPECT_EQ(connection->state(), State::rep_sent);
}

TEST_F(CmHostile, RepFromAnotherAddressConnectsNothing) {
  start_peer();
  Connection* connection = open();
  const AddressVector elsewhere = from_elsewhere();
  exchange_mad(elsewhere, sim::MadPeer::make(peer_rep(connection->local_communication_id())));
  EXPECT_EQ(connection->state(), State::req_sent);
  EXPECT_EQ(qp_->state(), QpState::init);
  exchange_mad(elsewhere, sim::MadPeer::make(wire::cm::Rej{
                              .remote_communication_id = connection->local_communication_id(),
                              .reason = RejectReason::consumer}));
  EXPECT_EQ(connection->state(), State::req_sent);
  EXPECT_EQ(counter(0, "bad_address_messages"), 2u);
}

TEST_F(CmHostile, UnknownAndWrongIds) {
  start_peer();
  Connection* connection = asked();
  accept(*connection);
  const std::uint32_t own = connection->local_communication_id();
  std::uint64_t expected = 0;
  // Ours wrong, or the peer's.
  for (const auto& [to, from] : {std::pair{own ^ 1, kPeerId}, std::pair{own, kPeerId ^ 1},
                                 std::pair{0u, 0u}, std::pair{own, 0u}}) {
    EXPECT_THAT(
        exchange(wire::cm::Rtu{.local_communication_id = from, .remote_communication_id = to}),
        IsEmpty());
    EXPECT_EQ(counter(0, "unknown_connection"), ++expected);
    EXPECT_THAT(
        exchange(wire::cm::Drep{.local_communication_id = from, .remote_communication_id = to}),
        IsEmpty());
    EXPECT_EQ(counter(0, "unknown_connection"), ++expected);
    EXPECT_THAT(exchange(wire::cm::Mra{.local_communication_id = from,
                                       .remote_communication_id = to,
                                       .about = AboutMessage::rep}),
                IsEmpty());
    EXPECT_EQ(counter(0, "unknown_connection"), ++expected);
    // What is not connected is disconnected.
    const auto drep = exchange(wire::cm::Dreq{.local_communication_id = from,
                                              .remote_communication_id = to,
                                              .remote_qpn = connection->local_qpn()});
    ASSERT_EQ(drep.size(), 1u);
    EXPECT_EQ(drep[0].attribute(), Attribute::drep);
    EXPECT_EQ(drep[0].as<wire::cm::Drep>().remote_communication_id, from);
    EXPECT_EQ(counter(0, "unknown_connection"), ++expected);
    wire::cm::Rep rep = peer_rep(to);
    rep.local_communication_id = from;
    const auto rej = exchange(rep);
    ASSERT_EQ(rej.size(), 1u);
    EXPECT_EQ(rej[0].as<wire::cm::Rej>().reason, RejectReason::invalid_communication_id);
    EXPECT_EQ(rej[0].as<wire::cm::Rej>().about, AboutMessage::rep);
    EXPECT_EQ(counter(0, "unknown_connection"), ++expected);
    EXPECT_EQ(connection->state(), State::rep_sent);
  }
}

TEST_F(CmHostile, DreqForAnotherQueuePairIsDropped) {
  start_peer();
  Connection* connection = asked();
  accept(*connection);
  EXPECT_THAT(
      exchange(wire::cm::Dreq{.local_communication_id = kPeerId,
                              .remote_communication_id = connection->local_communication_id(),
                              .remote_qpn = wire::Qpn{connection->local_qpn().value ^ 1}}),
      IsEmpty());
  EXPECT_EQ(connection->state(), State::rep_sent);
  EXPECT_EQ(counter(0, "unexpected_messages"), 1u);
}

TEST_F(CmHostile, RepWithAQueuePairNumberThatCannotBe) {
  for (const std::uint32_t number : {0u, 1u, 0xffffffu}) {
    start_peer();
    Connection* connection = open();
    wire::cm::Rep rep = peer_rep(connection->local_communication_id());
    rep.local_qpn = wire::Qpn{number};
    const auto answers = exchange(rep);
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(answers[0].attribute(), Attribute::rej);
    EXPECT_EQ(answers[0].as<wire::cm::Rej>().about, AboutMessage::rep);
    EXPECT_THAT(types(0), ElementsAre(EventType::connect_error));
    EXPECT_EQ(qp_->state(), QpState::err);
    TearDown();
    forget_events();
  }
}

TEST_F(CmHostile, ClaimsOfRepAreCutToWhatCanBe) {
  start_peer();
  Connection* connection = open();
  wire::cm::Rep rep = peer_rep(connection->local_communication_id());
  rep.responder_resources = 255;
  rep.initiator_depth = 255;
  rep.target_ack_delay = 31;
  exchange(rep);
  EXPECT_EQ(connection->state(), State::established);
  EXPECT_EQ(qp_->query().max_rd_atomic, QpParameters{}.initiator_depth);
}

TEST_F(CmHostile, ClaimsOfReqAreCutToWhatCanBe) {
  start_peer();
  wire::cm::Req req = peer_req();
  req.responder_resources = 255;
  req.initiator_depth = 255;
  exchange(req);
  accept(*events(0).back().connection);
  EXPECT_EQ(qp_->query().max_rd_atomic, QpParameters{}.initiator_depth);
  EXPECT_EQ(qp_->query().max_dest_rd_atomic, QpParameters{}.responder_resources);
}

/// A REP that names the queue pair of another connection (12.4.1: the other one is stale).
TEST_F(CmHostile, RepWithTheQueuePairOfAnotherConnection) {
  start_peer();
  Connection* first = open();
  QueuePair* first_qp = qp_;
  exchange(peer_rep(first->local_communication_id()));
  Connection* second = open();
  const auto answers = exchange(peer_rep(second->local_communication_id()));
  EXPECT_EQ(second->state(), State::closed);
  EXPECT_EQ(first->state(), State::dreq_sent);
  EXPECT_EQ(first_qp->state(), QpState::err);
  EXPECT_EQ(counter(0, "stale_connections"), 1u);
  bool rejected = false;
  for (const auto& answer : answers) {
    rejected = rejected || (answer.attribute() == Attribute::rej &&
                            answer.as<wire::cm::Rej>().reason == RejectReason::stale_connection);
  }
  EXPECT_TRUE(rejected);
}

TEST_F(CmHostile, RejectsInEachForm) {
  struct {
    const char* what;
    std::uint32_t local_id;
    bool names_ours;
    RejectReason reason;
    bool counts;
  } const rows[] = {
      {"with the peer's ID", kPeerId, true, RejectReason::consumer, true},
      {"without an ID of the peer's", 0, true, RejectReason::invalid_service_id, true},
      {"with another ID of the peer's", kPeerId ^ 1, true, RejectReason::consumer, false},
      {"time-out by the peer's ID", kPeerId, false, RejectReason::timeout, true},
      {"time-out by another ID", kPeerId ^ 1, false, RejectReason::timeout, false},
      {"time-out that names ours", kPeerId, true, RejectReason::timeout, true},
      {"another reason and no ID of ours", kPeerId, false, RejectReason::consumer, false},
      {"a reason without a name", kPeerId, true, static_cast<RejectReason>(0xffff), true},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    start_peer();
    Connection* connection = asked();
    accept(*connection);
    forget_events();
    EXPECT_THAT(
        exchange(wire::cm::Rej{
            .local_communication_id = row.local_id,
            .remote_communication_id = row.names_ours ? connection->local_communication_id() : 0,
            .about = AboutMessage::rep,
            .info_length = 127,
            .reason = row.reason}),
        IsEmpty());
    EXPECT_EQ(counter(0, "rcvd_rejects"), 1u);
    if (row.counts) {
      ASSERT_THAT(types(0), ElementsAre(EventType::rejected));
      EXPECT_EQ(events(0)[0].reason, row.reason);
      EXPECT_EQ(connection->state(), State::closed);
    } else {
      EXPECT_THAT(types(0), IsEmpty());
      EXPECT_EQ(connection->state(), State::rep_sent);
      EXPECT_EQ(counter(0, "unknown_connection"), 1u);
    }
    TearDown();
    forget_events();
  }
}

/// Timeouts that a peer asks for are cut to 69 s; it does not hold us up for hours.
TEST_F(CmHostile, AbsurdTimeoutsAreCut) {
  start_peer();
  wire::cm::Req req = peer_req();
  req.local_cm_response_timeout = 31;
  req.remote_cm_response_timeout = 31;
  req.primary_local_ack_timeout = 31;
  req.max_cm_retries = 1;
  exchange(req);
  Connection* connection = events(0).back().connection;
  accept(*connection);
  exchange(wire::cm::Mra{.local_communication_id = kPeerId,
                         .remote_communication_id = connection->local_communication_id(),
                         .about = AboutMessage::rep,
                         .service_timeout = 31});
  const std::uint64_t start_ns = net().now_ns();
  await(0, EventType::unreachable);
  EXPECT_LE(net().now_ns() - start_ns, 4 * timeout_ns(kTimeoutCodeMax));
  await(0, EventType::timewait_exit);
  EXPECT_LE(net().now_ns() - start_ns, 5 * timeout_ns(kTimeoutCodeMax));
}

/// 4 us and no retry: over before any application can answer, and no storm of messages.
TEST_F(CmHostile, TimeoutsOfNothing) {
  start_peer();
  wire::cm::Req req = peer_req();
  req.local_cm_response_timeout = 0;
  req.remote_cm_response_timeout = 0;
  req.max_cm_retries = 0;
  exchange(req);
  net().run_for(kSecondNs);
  EXPECT_THAT(types(0), ElementsAre(EventType::connect_request, EventType::unreachable));
  forget_events();
  req.local_communication_id = kPeerId + 1;
  req.local_qpn = wire::Qpn{kPeerQpn.value + 1};
  req.remote_cm_response_timeout = 18;
  req.max_cm_retries = 15;
  exchange(req);
  accept(*events(0).back().connection);
  net().run_for(kSecondNs);
  EXPECT_EQ(counter(0, "repeated_messages"), 15u);
  EXPECT_EQ(events(0).back().type, EventType::timewait_exit);
}

/// A peer that goes on asking for more time is given it, but each time no more than 69 s.
TEST_F(CmHostile, MraIsObeyedWithinLimits) {
  start_peer();
  Connection* connection = open();
  const auto mra = [&](std::uint8_t timeout) {
    exchange(wire::cm::Mra{.local_communication_id = kPeerId,
                           .remote_communication_id = connection->local_communication_id(),
                           .about = AboutMessage::req,
                           .service_timeout = timeout});
  };
  mra(20);
  net().run_for(timeout_ns(20));
  EXPECT_EQ(counter(0, "repeated_messages"), 0u);
  net().run_for(2 * timeout_ns(18));
  EXPECT_GE(counter(0, "repeated_messages"), 1u);
  mra(31);
  const std::uint64_t start_ns = net().now_ns();
  await(0, EventType::unreachable);
  EXPECT_LE(net().now_ns() - start_ns, timeout_ns(kTimeoutCodeMax) + 17 * timeout_ns(18));
}

// --- Service ID resolution ----------------------------------------------------------------------

TEST_F(CmHostile, RepliesToNoQuestion) {
  start_peer();
  Lookup* lookup = must(manager(0).resolve({.path = net().path(0), .service_id = kService}));
  net().run_for(10'000);
  const auto sent = net().peer().take();
  ASSERT_EQ(sent.size(), 1u);
  const std::uint32_t id = sent[0].as<wire::cm::SidrReq>().request_id;
  const wire::cm::SidrRep good{
      .request_id = id, .qpn = kPeerQpn, .service_id = kService, .qkey = 7};

  wire::cm::SidrRep other = good;
  other.request_id = id ^ 1;
  exchange(other);
  EXPECT_EQ(counter(0, "unknown_connection"), 1u);
  exchange_mad(from_elsewhere(), sim::MadPeer::make(good));
  EXPECT_EQ(counter(0, "bad_address_messages"), 1u);
  EXPECT_THAT(types(0), IsEmpty());
  exchange(good);
  EXPECT_THAT(types(0), ElementsAre(EventType::resolved));
  exchange(good);
  EXPECT_EQ(counter(0, "duplicate_messages"), 1u);
  EXPECT_EQ(types(0).size(), 1u);
  manager(0).release(*lookup);
}

TEST_F(CmHostile, ReplyWithAQueuePairNumberThatCannotBe) {
  for (const std::uint32_t number : {0u, 1u, 0xffffffu}) {
    start_peer();
    Lookup* lookup = must(manager(0).resolve({.path = net().path(0), .service_id = kService}));
    net().run_for(10'000);
    const std::uint32_t id = net().peer().take().at(0).as<wire::cm::SidrReq>().request_id;
    exchange(wire::cm::SidrRep{
        .request_id = id, .qpn = wire::Qpn{number}, .service_id = kService, .qkey = 7});
    ASSERT_THAT(types(0), ElementsAre(EventType::lookup_failed));
    EXPECT_EQ(events(0)[0].status, SidrStatus::no_qp);
    manager(0).release(*lookup);
    TearDown();
    forget_events();
  }
}

TEST_F(CmHostile, RepeatedQuestionsAreOne) {
  start_peer();
  const auto mad = sim::MadPeer::make(
      wire::cm::SidrReq{.request_id = 77, .pkey = 0xffff, .service_id = kService});
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(exchange_mad(mad), IsEmpty());
  }
  ASSERT_THAT(types(0), ElementsAre(EventType::lookup_request));
  must(manager(0).answer(*events(0)[0].lookup, kPeerQpn, 7));
  // A repetition gets the answer that was given.
  net().run_for(10'000);
  const auto answers = exchange_mad(mad);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].as<wire::cm::SidrRep>().qpn, kPeerQpn);
  EXPECT_EQ(types(0).size(), 1u);
}

TEST_F(CmHostile, FloodOfQuestionsStopsAtTheLimit) {
  sim::CmNetworkConfig config;
  config.managers[0].max_lookups = 30;
  start_peer(config);
  for (std::uint32_t i = 0; i < 200; ++i) {
    net().peer().send(net().path(1), sim::MadPeer::make(wire::cm::SidrReq{
                                         .request_id = i, .pkey = 0xffff, .service_id = kService}));
  }
  net().run_for(1'000'000);
  EXPECT_EQ(count(0, EventType::lookup_request), 30u);
  EXPECT_EQ(counter(0, "refused_limit"), 170u);
  for (const Event& event : events(0)) {
    manager(0).release(*event.lookup);
  }
}

}  // namespace
}  // namespace rockhopper::roce::cm
