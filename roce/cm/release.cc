// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/cm/release.h"

namespace rockhopper::roce::cm {

using wire::cm::AboutMessage;
using wire::cm::RejectReason;

void Release::on_dreq(const ReceivedMad& mad, std::uint64_t transaction_id,
                      const wire::cm::Dreq& dreq) {
  ManagedConnection* connection =
      connections_.find(mad, dreq.remote_communication_id, dreq.local_communication_id);
  const auto confirm = [&] {
    parts_.messenger.send(mad.reply, transaction_id,
                          wire::cm::Drep{.local_communication_id = dreq.remote_communication_id,
                                         .remote_communication_id = dreq.local_communication_id});
  };
  if (connection == nullptr) {
    // What is not connected is disconnected: let the peer have its peace.
    return confirm();
  }
  if (dreq.remote_qpn != connection->local_qpn_) {
    parts_.counters.unexpected_messages.add();
    return;
  }
  switch (connection->state_) {
    case State::established:
    case State::rep_sent:
    case State::rep_rcvd:
      connections_.fail_qp(*connection);
      [[fallthrough]];
    case State::dreq_sent:
      confirm();
      parts_.counters.disconnected.add();
      return connections_.enter_timewait(*connection, EventType::disconnected);
    case State::timewait:
      parts_.counters.duplicate_messages.add();
      return confirm();
    case State::req_sent:
      // It has accepted and ended that again; its REP was lost.
      confirm();
      parts_.tell({.type = EventType::rejected,
                   .connection = connection,
                   .reason = RejectReason::consumer});
      return connections_.close(*connection);
    case State::req_rcvd:
    case State::closed:
      parts_.counters.unexpected_messages.add();
      return;
  }
}

void Release::on_drep(const ReceivedMad& mad, const wire::cm::Drep& drep) {
  ManagedConnection* connection =
      connections_.find(mad, drep.remote_communication_id, drep.local_communication_id);
  if (connection == nullptr) return;
  if (connection->state_ != State::dreq_sent) {
    parts_.counters.unexpected_messages.add();
    return;
  }
  parts_.counters.disconnected.add();
  connections_.enter_timewait(*connection, EventType::disconnected);
}

/// Returns the connection that is rejected; null if there is none, which has been counted.
ManagedConnection* Release::find(const ReceivedMad& mad, const wire::cm::Rej& rej) {
  if (rej.reason == RejectReason::timeout && rej.remote_communication_id == 0) {
    // The peer gave up before it knew our ID.
    ManagedConnection* known =
        parts_.table.find_by_remote_id({mad.reply.destination, rej.local_communication_id});
    if (known == nullptr) parts_.counters.unknown_connection.add();
    return known;
  }
  // A REJ need not come with an ID of the peer's.
  std::uint32_t remote_id = rej.local_communication_id;
  if (remote_id == 0) {
    const ManagedConnection* named = parts_.table.find(rej.remote_communication_id);
    remote_id = named != nullptr ? named->remote_id : 0;
  }
  return connections_.find(mad, rej.remote_communication_id, remote_id);
}

void Release::on_rej(const ReceivedMad& mad, const wire::cm::Rej& rej) {
  parts_.counters.rcvd_rejects.add();
  ManagedConnection* connection = find(mad, rej);
  if (connection == nullptr) return;
  const Event rejected{.type = EventType::rejected,
                       .connection = connection,
                       .reason = rej.reason,
                       .private_data = PrivateData(rej.private_data)};
  switch (connection->state_) {
    case State::req_rcvd:
      parts_.listeners.leave(connection->place, connection->service_id_);
      [[fallthrough]];
    case State::req_sent:
      parts_.tell(rejected);
      return connections_.close(*connection);
    case State::rep_sent:
    case State::rep_rcvd:
      parts_.tell(rejected);
      connections_.fail_qp(*connection);
      return connections_.close(*connection);
    case State::established:
      connections_.fail_qp(*connection);
      [[fallthrough]];
    case State::dreq_sent:
      parts_.counters.disconnected.add();
      return connections_.enter_timewait(*connection, EventType::disconnected);
    case State::timewait:
    case State::closed:
      parts_.counters.unexpected_messages.add();
      return;
  }
}

void Release::release(ManagedConnection& connection) {
  std::erase_if(parts_.events, [&](const Event& event) { return event.connection == &connection; });
  connection.is_released = true;
  switch (connection.state_) {
    case State::req_rcvd:
      (void)passive_.reject(connection, {}, RejectReason::consumer);
      return;
    case State::rep_rcvd:
      (void)active_.reject(connection, {}, RejectReason::consumer);
      return;
    case State::req_sent:
      // Spares the peer's application the work. A late REP will be rejected.
      parts_.messenger.reject(connection.path_, connection.transaction_id,
                              {.local_communication_id = connection.local_id_,
                               .about = AboutMessage::other,
                               .reason = RejectReason::timeout});
      return connections_.close(connection);
    case State::established:
    case State::rep_sent:
      (void)connections_.disconnect(connection);
      return;
    case State::closed:
      return connections_.forget(connection);
    case State::dreq_sent:
    case State::timewait:
      return;
  }
}

}  // namespace rockhopper::roce::cm
