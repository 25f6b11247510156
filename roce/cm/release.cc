// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// How connections end: DREQ and DREP, REJ, and the application's release (IBTA vol. 1, 12.9.8).
#include <algorithm>

#include "roce/cm/connection_manager.h"

namespace rockhopper::roce::cm {

using wire::cm::AboutMessage;
using wire::cm::RejectReason;

Expected<void> ConnectionManager::disconnect(Connection& connection) {
  switch (connection.state_) {
    case State::established:
    case State::rep_sent:
      fail_qp(connection);
      connection.state_ = State::dreq_sent;
      connection.transaction_id_ = config_.random->next();
      await_answer(connection, config_.response_timeout, config_.max_retries,
                   send(connection.path_, connection.transaction_id_,
                        wire::cm::Dreq{.local_communication_id = connection.local_id_,
                                       .remote_communication_id = connection.remote_id_,
                                       .remote_qpn = connection.remote_qpn_}));
      return {};
    case State::dreq_sent:
    case State::timewait:
      return {};
    case State::req_sent:
    case State::req_rcvd:
    case State::closed:
      break;
  }
  return fail(ErrorCode::invalid_state, "not connected: the connection is in {}",
              to_string(connection.state_));
}

void ConnectionManager::on_dreq(const ReceivedMad& mad, std::uint64_t transaction_id,
                                const wire::cm::Dreq& dreq) {
  Connection* connection = find(mad, dreq.remote_communication_id, dreq.local_communication_id);
  const auto confirm = [&] {
    send(mad.reply, transaction_id,
         wire::cm::Drep{.local_communication_id = dreq.remote_communication_id,
                        .remote_communication_id = dreq.local_communication_id});
  };
  if (connection == nullptr) {
    // What is not connected is disconnected: let the peer have its peace.
    return confirm();
  }
  if (dreq.remote_qpn != connection->local_qpn_) {
    counters_.unexpected_messages.add();
    return;
  }
  switch (connection->state_) {
    case State::established:
    case State::rep_sent:
      fail_qp(*connection);
      [[fallthrough]];
    case State::dreq_sent:
      confirm();
      counters_.disconnected.add();
      return enter_timewait(*connection, EventType::disconnected);
    case State::timewait:
      counters_.duplicate_messages.add();
      return confirm();
    case State::req_sent:
      // It has accepted and ended that again; its REP was lost.
      confirm();
      tell({.type = EventType::rejected,
            .connection = connection,
            .reason = RejectReason::consumer});
      return close(*connection);
    case State::req_rcvd:
    case State::closed:
      counters_.unexpected_messages.add();
      return;
  }
}

void ConnectionManager::on_drep(const ReceivedMad& mad, const wire::cm::Drep& drep) {
  Connection* connection = find(mad, drep.remote_communication_id, drep.local_communication_id);
  if (connection == nullptr) return;
  if (connection->state_ != State::dreq_sent) {
    counters_.unexpected_messages.add();
    return;
  }
  counters_.disconnected.add();
  enter_timewait(*connection, EventType::disconnected);
}

void ConnectionManager::on_rej(const ReceivedMad& mad, const wire::cm::Rej& rej) {
  counters_.rcvd_rejects.add();
  Connection* connection = nullptr;
  if (rej.reason == RejectReason::timeout && rej.remote_communication_id == 0) {
    // The peer gave up before it knew our ID.
    const auto known = by_remote_id_.find({mad.reply.destination, rej.local_communication_id});
    if (known == by_remote_id_.end()) {
      counters_.unknown_connection.add();
    } else {
      connection = known->second;
    }
  } else {
    // A REJ need not come with an ID of the peer's.
    const auto found = connections_.find(rej.remote_communication_id);
    const std::uint32_t remote_id = rej.local_communication_id != 0 ? rej.local_communication_id
                                    : found != connections_.end()   ? found->second->remote_id_
                                                                    : 0;
    connection = find(mad, rej.remote_communication_id, remote_id);
  }
  if (connection == nullptr) return;
  const Event rejected{.type = EventType::rejected,
                       .connection = connection,
                       .reason = rej.reason,
                       .private_data = PrivateData(rej.private_data)};
  switch (connection->state_) {
    case State::req_rcvd:
      stop_waiting(*connection);
      [[fallthrough]];
    case State::req_sent:
      tell(rejected);
      return close(*connection);
    case State::rep_sent:
      tell(rejected);
      fail_qp(*connection);
      return close(*connection);
    case State::established:
      fail_qp(*connection);
      [[fallthrough]];
    case State::dreq_sent:
      counters_.disconnected.add();
      return enter_timewait(*connection, EventType::disconnected);
    case State::timewait:
    case State::closed:
      counters_.unexpected_messages.add();
      return;
  }
}

void ConnectionManager::release(Connection& connection) {
  std::erase_if(events_, [&](const Event& event) { return event.connection == &connection; });
  connection.released_ = true;
  switch (connection.state_) {
    case State::req_rcvd:
      static_cast<void>(reject(connection));
      return;
    case State::req_sent:
      // Spares the peer's application the work. A late REP will be rejected.
      send_reject(connection.path_, connection.transaction_id_,
                  {.local_communication_id = connection.local_id_,
                   .about = AboutMessage::other,
                   .reason = RejectReason::timeout});
      return close(connection);
    case State::established:
    case State::rep_sent:
      static_cast<void>(disconnect(connection));
      return;
    case State::closed:
      return forget(connection);
    case State::dreq_sent:
    case State::timewait:
      return;
  }
}

}  // namespace rockhopper::roce::cm
