// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Every message in every state (IBTA vol. 1, 12.9.5 to 12.9.8): what becomes of the connection,
// what the application is told, what is answered, what is counted.
#include <optional>
#include <string>

#include "tests/unit/cm/peer_fixture.h"

namespace rockhopper::roce::cm {
namespace {

using sim::must;
using wire::cm::AboutMessage;
using wire::cm::Attribute;
using wire::cm::RejectReason;

/// How the connection of node 0 came to the state in which the message finds it.
enum class Situation {
  active_req_sent,
  active_rep_rcvd,  // of an external queue pair, which is being moved
  active_established,
  active_dreq_sent,
  active_timewait,
  active_closed,
  passive_req_rcvd,
  passive_rep_sent,
  passive_established,
  passive_dreq_sent,
  passive_timewait,
  passive_closed,
};

enum class Message { req, mra_of_req, mra_of_rep, rej, rep, rtu, dreq, drep };

struct Row {
  Situation situation;
  Message message;
  State then;
  std::optional<EventType> event;
  std::optional<Attribute> answer;
  const char* counter;
};

using S = Situation;
using M = Message;
using E = EventType;
using A = Attribute;
constexpr auto kNothing = std::nullopt;

// A REQ has a row only where it can be a repetition.
const std::vector<Row> kTable{
    {S::active_req_sent, M::mra_of_req, State::req_sent, kNothing, kNothing, "rcvd_messages"},
    {S::active_req_sent, M::mra_of_rep, State::req_sent, kNothing, kNothing, "unexpected_messages"},
    {S::active_req_sent, M::rej, State::closed, E::rejected, kNothing, "rcvd_rejects"},
    {S::active_req_sent, M::rep, State::established, E::established, A::rtu, "established"},
    {S::active_req_sent, M::rtu, State::req_sent, kNothing, kNothing, "unexpected_messages"},
    {S::active_req_sent, M::dreq, State::closed, E::rejected, A::drep, "rcvd_messages"},
    {S::active_req_sent, M::drep, State::req_sent, kNothing, kNothing, "unexpected_messages"},

    {S::active_rep_rcvd, M::mra_of_req, State::rep_rcvd, kNothing, kNothing, "unexpected_messages"},
    {S::active_rep_rcvd, M::mra_of_rep, State::rep_rcvd, kNothing, kNothing, "unexpected_messages"},
    {S::active_rep_rcvd, M::rej, State::closed, E::rejected, kNothing, "rcvd_rejects"},
    {S::active_rep_rcvd, M::rep, State::rep_rcvd, kNothing, A::mra, "duplicate_messages"},
    {S::active_rep_rcvd, M::rtu, State::rep_rcvd, kNothing, kNothing, "unexpected_messages"},
    {S::active_rep_rcvd, M::dreq, State::timewait, E::disconnected, A::drep, "disconnected"},
    {S::active_rep_rcvd, M::drep, State::rep_rcvd, kNothing, kNothing, "unexpected_messages"},

    {S::active_established, M::mra_of_req, State::established, kNothing, kNothing,
     "unexpected_messages"},
    {S::active_established, M::mra_of_rep, State::established, kNothing, kNothing,
     "unexpected_messages"},
    {S::active_established, M::rej, State::timewait, E::disconnected, kNothing, "disconnected"},
    {S::active_established, M::rep, State::established, kNothing, A::rtu, "duplicate_messages"},
    {S::active_established, M::rtu, State::established, kNothing, kNothing, "unexpected_messages"},
    {S::active_established, M::dreq, State::timewait, E::disconnected, A::drep, "disconnected"},
    {S::active_established, M::drep, State::established, kNothing, kNothing, "unexpected_messages"},

    {S::active_dreq_sent, M::mra_of_req, State::dreq_sent, kNothing, kNothing,
     "unexpected_messages"},
    {S::active_dreq_sent, M::mra_of_rep, State::dreq_sent, kNothing, kNothing,
     "unexpected_messages"},
    {S::active_dreq_sent, M::rej, State::timewait, E::disconnected, kNothing, "disconnected"},
    {S::active_dreq_sent, M::rep, State::dreq_sent, kNothing, kNothing, "unexpected_messages"},
    {S::active_dreq_sent, M::rtu, State::dreq_sent, kNothing, kNothing, "unexpected_messages"},
    {S::active_dreq_sent, M::dreq, State::timewait, E::disconnected, A::drep, "disconnected"},
    {S::active_dreq_sent, M::drep, State::timewait, E::disconnected, kNothing, "disconnected"},

    {S::active_timewait, M::mra_of_req, State::timewait, kNothing, kNothing, "unexpected_messages"},
    {S::active_timewait, M::mra_of_rep, State::timewait, kNothing, kNothing, "unexpected_messages"},
    {S::active_timewait, M::rej, State::timewait, kNothing, kNothing, "unexpected_messages"},
    {S::active_timewait, M::rep, State::timewait, kNothing, kNothing, "unexpected_messages"},
    {S::active_timewait, M::rtu, State::timewait, kNothing, kNothing, "unexpected_messages"},
    {S::active_timewait, M::dreq, State::timewait, kNothing, A::drep, "duplicate_messages"},
    {S::active_timewait, M::drep, State::timewait, kNothing, kNothing, "unexpected_messages"},

    {S::active_closed, M::mra_of_req, State::closed, kNothing, kNothing, "unknown_connection"},
    {S::active_closed, M::mra_of_rep, State::closed, kNothing, kNothing, "unknown_connection"},
    {S::active_closed, M::rej, State::closed, kNothing, kNothing, "unknown_connection"},
    {S::active_closed, M::rep, State::closed, kNothing, A::rej, "unknown_connection"},
    {S::active_closed, M::rtu, State::closed, kNothing, kNothing, "unknown_connection"},
    {S::active_closed, M::dreq, State::closed, kNothing, A::drep, "unknown_connection"},
    {S::active_closed, M::drep, State::closed, kNothing, kNothing, "unknown_connection"},

    {S::passive_req_rcvd, M::req, State::req_rcvd, kNothing, A::mra, "duplicate_messages"},
    {S::passive_req_rcvd, M::mra_of_req, State::req_rcvd, kNothing, kNothing,
     "unexpected_messages"},
    {S::passive_req_rcvd, M::mra_of_rep, State::req_rcvd, kNothing, kNothing,
     "unexpected_messages"},
    {S::passive_req_rcvd, M::rej, State::closed, E::rejected, kNothing, "rcvd_rejects"},
    {S::passive_req_rcvd, M::rep, State::req_rcvd, kNothing, kNothing, "unexpected_messages"},
    {S::passive_req_rcvd, M::rtu, State::req_rcvd, kNothing, kNothing, "unexpected_messages"},
    {S::passive_req_rcvd, M::dreq, State::req_rcvd, kNothing, kNothing, "unexpected_messages"},
    {S::passive_req_rcvd, M::drep, State::req_rcvd, kNothing, kNothing, "unexpected_messages"},

    {S::passive_rep_sent, M::req, State::rep_sent, kNothing, A::rep, "duplicate_messages"},
    {S::passive_rep_sent, M::mra_of_req, State::rep_sent, kNothing, kNothing,
     "unexpected_messages"},
    {S::passive_rep_sent, M::mra_of_rep, State::rep_sent, kNothing, kNothing, "rcvd_messages"},
    {S::passive_rep_sent, M::rej, State::closed, E::rejected, kNothing, "rcvd_rejects"},
    {S::passive_rep_sent, M::rep, State::rep_sent, kNothing, kNothing, "unexpected_messages"},
    {S::passive_rep_sent, M::rtu, State::established, E::established, kNothing, "established"},
    {S::passive_rep_sent, M::dreq, State::timewait, E::disconnected, A::drep, "disconnected"},
    {S::passive_rep_sent, M::drep, State::rep_sent, kNothing, kNothing, "unexpected_messages"},

    {S::passive_established, M::req, State::established, kNothing, kNothing, "duplicate_messages"},
    {S::passive_established, M::mra_of_req, State::established, kNothing, kNothing,
     "unexpected_messages"},
    {S::passive_established, M::mra_of_rep, State::established, kNothing, kNothing,
     "unexpected_messages"},
    {S::passive_established, M::rej, State::timewait, E::disconnected, kNothing, "disconnected"},
    {S::passive_established, M::rep, State::established, kNothing, kNothing, "unexpected_messages"},
    {S::passive_established, M::rtu, State::established, kNothing, kNothing, "duplicate_messages"},
    {S::passive_established, M::dreq, State::timewait, E::disconnected, A::drep, "disconnected"},
    {S::passive_established, M::drep, State::established, kNothing, kNothing,
     "unexpected_messages"},

    {S::passive_dreq_sent, M::req, State::dreq_sent, kNothing, kNothing, "duplicate_messages"},
    {S::passive_dreq_sent, M::mra_of_rep, State::dreq_sent, kNothing, kNothing,
     "unexpected_messages"},
    {S::passive_dreq_sent, M::rej, State::timewait, E::disconnected, kNothing, "disconnected"},
    {S::passive_dreq_sent, M::rep, State::dreq_sent, kNothing, kNothing, "unexpected_messages"},
    {S::passive_dreq_sent, M::rtu, State::dreq_sent, kNothing, kNothing, "unexpected_messages"},
    {S::passive_dreq_sent, M::dreq, State::timewait, E::disconnected, A::drep, "disconnected"},
    {S::passive_dreq_sent, M::drep, State::timewait, E::disconnected, kNothing, "disconnected"},

    {S::passive_timewait, M::req, State::timewait, kNothing, kNothing, "duplicate_messages"},
    {S::passive_timewait, M::mra_of_rep, State::timewait, kNothing, kNothing,
     "unexpected_messages"},
    {S::passive_timewait, M::rej, State::timewait, kNothing, kNothing, "unexpected_messages"},
    {S::passive_timewait, M::rep, State::timewait, kNothing, kNothing, "unexpected_messages"},
    {S::passive_timewait, M::rtu, State::timewait, kNothing, kNothing, "unexpected_messages"},
    {S::passive_timewait, M::dreq, State::timewait, kNothing, A::drep, "duplicate_messages"},
    {S::passive_timewait, M::drep, State::timewait, kNothing, kNothing, "unexpected_messages"},

    // Rejected by the application: the REJ may have got lost.
    {S::passive_closed, M::req, State::closed, kNothing, A::rej, "duplicate_messages"},
    {S::passive_closed, M::mra_of_req, State::closed, kNothing, kNothing, "unknown_connection"},
    {S::passive_closed, M::rej, State::closed, kNothing, kNothing, "unknown_connection"},
    {S::passive_closed, M::rep, State::closed, kNothing, A::rej, "unknown_connection"},
    {S::passive_closed, M::rtu, State::closed, kNothing, kNothing, "unknown_connection"},
    {S::passive_closed, M::dreq, State::closed, kNothing, A::drep, "unknown_connection"},
    {S::passive_closed, M::drep, State::closed, kNothing, kNothing, "unknown_connection"},
};

std::string name_of(const Row& row) {
  static constexpr const char* kSituations[] = {
      "ActiveReqSent",      "ActiveRepRcvd",   "ActiveEstablished", "ActiveDreqSent",
      "ActiveTimewait",     "ActiveClosed",    "PassiveReqRcvd",    "PassiveRepSent",
      "PassiveEstablished", "PassiveDreqSent", "PassiveTimewait",   "PassiveClosed"};
  static constexpr const char* kMessages[] = {"Req", "MraOfReq", "MraOfRep", "Rej",
                                              "Rep", "Rtu",      "Dreq",     "Drep"};
  return std::string(kSituations[static_cast<int>(row.situation)]) + "Gets" +
         kMessages[static_cast<int>(row.message)];
}

void PrintTo(const Row& row, std::ostream* out) { *out << name_of(row); }

class CmTable : public PeerTest, public ::testing::WithParamInterface<Row> {
 protected:
  Connection* bring_to(Situation situation);
  std::vector<Received> give(Message message, const Connection& connection);
};

INSTANTIATE_TEST_SUITE_P(Every, CmTable, ::testing::ValuesIn(kTable),
                         [](const auto& row) { return name_of(row.param); });

Connection* CmTable::bring_to(Situation situation) {
  const bool active = situation <= Situation::active_closed;
  const bool external = situation == Situation::active_rep_rcvd;
  Connection* connection = external ? open_external() : active ? open() : asked();
  const auto end = [&](Situation dreq_sent, Situation timewait) {
    if (situation != dreq_sent && situation != timewait) return;
    must(manager(0).disconnect(*connection));
    if (situation == timewait) give(Message::drep, *connection);
  };
  if (active) {
    if (situation == Situation::active_req_sent) return connection;
    give(situation == Situation::active_closed ? Message::rej : Message::rep, *connection);
    end(Situation::active_dreq_sent, Situation::active_timewait);
    return connection;
  }
  if (situation == Situation::passive_req_rcvd) return connection;
  if (situation == Situation::passive_closed) {
    must(manager(0).reject(*connection));
    return connection;
  }
  accept(*connection);
  if (situation == Situation::passive_rep_sent) return connection;
  give(Message::rtu, *connection);
  end(Situation::passive_dreq_sent, Situation::passive_timewait);
  return connection;
}

std::vector<PeerTest::Received> CmTable::give(Message message, const Connection& connection) {
  const std::uint32_t to = connection.local_communication_id();
  switch (message) {
    case Message::req:
      return exchange(peer_req());
    case Message::mra_of_req:
    case Message::mra_of_rep:
      return exchange(wire::cm::Mra{
          .local_communication_id = kPeerId,
          .remote_communication_id = to,
          .about = message == Message::mra_of_req ? AboutMessage::req : AboutMessage::rep,
          .service_timeout = 10});
    case Message::rej:
      return exchange(wire::cm::Rej{.local_communication_id = kPeerId,
                                    .remote_communication_id = to,
                                    .reason = RejectReason::consumer});
    case Message::rep:
      return exchange(peer_rep(to));
    case Message::rtu:
      return exchange(
          wire::cm::Rtu{.local_communication_id = kPeerId, .remote_communication_id = to});
    case Message::dreq:
      return exchange(wire::cm::Dreq{.local_communication_id = kPeerId,
                                     .remote_communication_id = to,
                                     .remote_qpn = connection.local_qpn()});
    case Message::drep:
      return exchange(
          wire::cm::Drep{.local_communication_id = kPeerId, .remote_communication_id = to});
  }
  return {};
}

TEST_P(CmTable, AsWritten) {
  const Row& row = GetParam();
  start_peer();
  Connection* connection = bring_to(row.situation);
  net().run_for(10'000);
  forget_events();
  const std::uint64_t counted = counter(0, row.counter);
  const auto answers = give(row.message, *connection);

  EXPECT_EQ(connection->state(), row.then);
  if (row.event) {
    EXPECT_THAT(types(0), ::testing::ElementsAre(*row.event));
  } else {
    EXPECT_THAT(types(0), ::testing::IsEmpty());
  }
  ASSERT_EQ(answers.size(), row.answer ? 1u : 0u);
  if (row.answer) {
    EXPECT_EQ(answers[0].attribute(), *row.answer);
  }
  EXPECT_EQ(counter(0, row.counter), counted + 1) << row.counter;
  if (qp_ != nullptr && row.then == State::established) {
    EXPECT_EQ(qp_->state(), QpState::rts);
  }
  if (qp_ != nullptr && row.then == State::timewait) {
    EXPECT_EQ(qp_->state(), QpState::err);
  }
}

}  // namespace
}  // namespace rockhopper::roce::cm
