// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What the connections of both roles share: their tables, their timer, their queue pairs' states.
#include <algorithm>

#include "roce/cm/connection_manager.h"

namespace rockhopper::roce::cm {

using wire::cm::AboutMessage;
using wire::cm::RejectReason;

namespace {

/// Takes the connection out of a table, unless another one has its place.
template <typename Table>
void erase_from(Table& table, const Connection& connection, std::uint32_t number) {
  const auto found = table.find({connection.path().destination, number});
  if (found != table.end() && found->second == &connection) table.erase(found);
}

}  // namespace

Expected<Connection*> ConnectionManager::make_connection(bool active) {
  if (connections_.size() == config_.max_connections) {
    return fail(ErrorCode::exhausted, "all {} connections are in use", config_.max_connections);
  }
  const std::uint32_t id = new_id();
  auto& slot = connections_[id];
  slot.reset(new Connection(*this, id, active, on_time<Connection>));
  return slot.get();
}

Connection* ConnectionManager::find(const ReceivedMad& mad, std::uint32_t local_id,
                                    std::uint32_t remote_id) {
  const auto found = connections_.find(local_id);
  if (found == connections_.end() || found->second->state_ == State::closed) {
    counters_.unknown_connection.add();
    return nullptr;
  }
  Connection& connection = *found->second;
  if (mad.reply.destination != connection.path_.destination ||
      mad.reply.source != connection.path_.source) {
    counters_.bad_address_messages.add();
    return nullptr;
  }
  // The peer's ID is not known before its REP.
  if (connection.state_ != State::req_sent && remote_id != connection.remote_id_) {
    counters_.unknown_connection.add();
    return nullptr;
  }
  return &connection;
}

Expected<void> ConnectionManager::to_init(QueuePair& qp, const QpParameters& parameters,
                                          std::uint16_t pkey_index) const {
  const QpType type = qp.init().qp_type;
  if (type != QpType::rc && type != QpType::uc) {
    return fail(ErrorCode::invalid_argument, "a queue pair of {} is not connected",
                to_string(type));
  }
  // One in RESET is new, or its application has taken it away from the connection it had.
  if (qp.state() != QpState::reset && by_local_qpn_.contains(qp.number().value)) {
    return fail(ErrorCode::invalid_state, "the queue pair has a connection already");
  }
  return qp.modify({.qp_state = QpState::init,
                    .qp_access_flags = parameters.access_flags,
                    .pkey_index = pkey_index},
                   kQpState | kQpAccessFlags | kQpPkeyIndex | kQpPort);
}

Expected<void> ConnectionManager::to_rts(QueuePair& qp, const Connection& connection) {
  if (qp.state() != QpState::init) {
    return fail(ErrorCode::invalid_state, "the queue pair is no longer in INIT, but in {}",
                to_string(qp.state()));
  }
  if (!connection.is_uc()) {
    RecoveryConfig recovery = qp.loss_recovery();
    recovery.algorithm = (connection.agreed_ & kCapabilitySelectiveRepeat) != 0
                             ? RecoveryAlgorithm::selective_repeat
                             : RecoveryAlgorithm::go_back_n;
    ROCKHOPPER_TRY(qp.set_loss_recovery(recovery));
  }
  const QpParameters& own = connection.qp_;
  const QpAttributes attributes{
      .path_mtu = connection.path_mtu_,
      .rq_psn = connection.receive_psn_,
      .sq_psn = connection.send_psn_,
      .dest_qp_num = connection.remote_qpn_,
      .ah_attr = connection.path(),
      .max_rd_atomic = std::min(own.initiator_depth, connection.peer_responder_resources_),
      .max_dest_rd_atomic = own.responder_resources,
      .min_rnr_timer = own.min_rnr_timer,
      .timeout = own.ack_timeout,
      .retry_cnt = own.retry_cnt,
      .rnr_retry = own.rnr_retry};
  return qp.bring_up(attributes, QpState::rts);
}

QueuePair* ConnectionManager::own_qp(const Connection& connection) const {
  const auto found = by_local_qpn_.find(connection.local_qpn_.value);
  return found == by_local_qpn_.end() || found->second != &connection
             ? nullptr
             : config_.engine->find_qp(connection.local_qpn_);
}

void ConnectionManager::fail_qp(const Connection& connection) {
  QueuePair* qp = own_qp(connection);
  if (qp != nullptr && qp->state() != QpState::reset) {
    static_cast<void>(qp->modify({.qp_state = QpState::err}, kQpState));
  }
}

void ConnectionManager::await_answer(Connection& connection, std::uint8_t timeout,
                                     std::uint8_t retries, const Mad& request) {
  connection.request_ = request;
  connection.answer_timeout_ns_ = timeout_ns(timeout);
  connection.retries_left_ = retries;
  timers_.arm(connection.timer_, now_ns_ + connection.answer_timeout_ns_);
}

void ConnectionManager::on_timer(Connection& connection) {
  switch (connection.state_) {
    case State::req_sent:
    case State::rep_sent:
    case State::dreq_sent:
      // What has not left yet cannot have been answered, and leaves by itself.
      if (!gsi_->resolves(connection.path_.destination)) {
        if (connection.retries_left_ == 0) return on_no_answer(connection);
        --connection.retries_left_;
        repeat(connection.path_, connection.request_);
      }
      timers_.arm(connection.timer_, now_ns_ + connection.answer_timeout_ns_);
      return;
    case State::req_rcvd:
      // The application took so long that the peer has given up.
      counters_.timeouts.add();
      stop_waiting(connection);
      tell({.type = EventType::unreachable, .connection = &connection});
      return close(connection);
    case State::timewait:
      tell({.type = EventType::timewait_exit, .connection = &connection});
      return close(connection);
    case State::established:
    case State::closed:
      return;
  }
}

void ConnectionManager::on_no_answer(Connection& connection) {
  counters_.timeouts.add();
  if (connection.state_ == State::dreq_sent) {
    return enter_timewait(connection, EventType::disconnected);
  }
  send_reject(connection.path_, connection.transaction_id_,
              {.local_communication_id = connection.local_id_,
               .remote_communication_id = connection.remote_id_,
               .about = AboutMessage::other,
               .reason = RejectReason::timeout});
  if (connection.state_ == State::rep_sent) {
    fail_qp(connection);
    return enter_timewait(connection, EventType::unreachable);
  }
  tell({.type = EventType::unreachable, .connection = &connection});
  close(connection);
}

/// Packets of the old connection may still be on their way: it stays to be recognised for that time
/// (IBTA vol. 1, 12.9.8.4).
void ConnectionManager::enter_timewait(Connection& connection, EventType event) {
  connection.state_ = State::timewait;
  detach(connection);
  const auto code = static_cast<std::uint8_t>(
      std::min<unsigned>(connection.qp_.ack_timeout + 1u, kTimeoutCodeMax));
  timers_.arm(connection.timer_, now_ns_ + timeout_ns(code));
  tell({.type = event, .connection = &connection});
}

void ConnectionManager::close(Connection& connection, const Mad& last_word) {
  connection.state_ = State::closed;
  connection.request_ = last_word;
  timers_.cancel(connection.timer_);
  detach(connection);
  if (connection.released_) forget(connection);
}

void ConnectionManager::detach(const Connection& connection) {
  erase_from(by_remote_qpn_, connection, connection.remote_qpn_.value);
  const auto own = by_local_qpn_.find(connection.local_qpn_.value);
  if (own != by_local_qpn_.end() && own->second == &connection) by_local_qpn_.erase(own);
}

void ConnectionManager::forget(Connection& connection) {
  erase_from(by_remote_id_, connection, connection.remote_id_);
  connections_.erase(connection.local_id_);
}

}  // namespace rockhopper::roce::cm
