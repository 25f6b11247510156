// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/cm/connections.h"

#include <algorithm>
#include <memory>

namespace rockhopper::roce::cm {

using wire::cm::AboutMessage;
using wire::cm::RejectReason;

ManagedConnection& Connections::make(bool active) {
  const auto is_taken = [this](std::uint32_t id) { return parts_.table.find(id) != nullptr; };
  return parts_.table.add(std::make_unique<ManagedConnection>(static_cast<ConnectionTimers&>(*this),
                                                              parts_.new_id(is_taken), active));
}

ManagedConnection* Connections::find(const ReceivedMad& mad, std::uint32_t local_id,
                                     std::uint32_t remote_id) {
  ManagedConnection* found = parts_.table.find(local_id);
  if (found == nullptr || found->state_ == State::closed) {
    parts_.counters.unknown_connection.add();
    return nullptr;
  }
  const ManagedConnection& connection = *found;
  if (mad.reply.destination != connection.path_.destination ||
      mad.reply.source != connection.path_.source) {
    parts_.counters.bad_address_messages.add();
    return nullptr;
  }
  // The peer's ID is not known before its REP.
  if (connection.state_ != State::req_sent && remote_id != connection.remote_id) {
    parts_.counters.unknown_connection.add();
    return nullptr;
  }
  return found;
}

// Their queue pairs.

Expected<void> Connections::to_init(QueuePair& qp, const QpParameters& parameters,
                                    std::uint16_t pkey_index) const {
  const QpType type = qp.init().qp_type;
  if (type != QpType::rc && type != QpType::uc) {
    return fail(ErrorCode::invalid_argument, "a queue pair of {} is not connected",
                to_string(type));
  }
  // One in RESET is new, or its application has taken it away from the connection it had.
  if (qp.state() != QpState::reset && parts_.table.find_by_local_qpn(qp.number()) != nullptr) {
    return fail(ErrorCode::invalid_state, "the queue pair has a connection already");
  }
  return qp.modify({.qp_state = QpState::init,
                    .qp_access_flags = parameters.access_flags,
                    .pkey_index = pkey_index},
                   kQpState | kQpAccessFlags | kQpPkeyIndex | kQpPort);
}

Expected<void> Connections::to_rts(QueuePair& qp, const ManagedConnection& connection) {
  if (qp.state() != QpState::init) {
    return fail(ErrorCode::invalid_state, "the queue pair is no longer in INIT, but in {}",
                to_string(qp.state()));
  }
  if (connection.qp_type_ != QpType::uc) {
    RecoveryConfig recovery = qp.loss_recovery();
    recovery.algorithm = (connection.agreed_ & kCapabilitySelectiveRepeat) != 0
                             ? RecoveryAlgorithm::selective_repeat
                             : RecoveryAlgorithm::go_back_n;
    ROCKHOPPER_TRY(qp.set_loss_recovery(recovery));
  }
  return qp.bring_up(attributes(connection), QpState::rts);
}

ExternalQp Connections::describe(const QueuePair& qp) {
  const QpInit& init = qp.init();
  const bool has_srq = init.srq != nullptr;
  const EndToEndCredits credits = qp.credits();
  return {
      .type = init.qp_type,
      .number = qp.number(),
      .has_srq = has_srq,
      .has_flow_control = init.qp_type == QpType::rc && !has_srq && credits.obey && credits.count};
}

Expected<void> Connections::check_external(const ExternalQp& qp, QpType xrc_end) {
  if (qp.type != QpType::rc && qp.type != QpType::uc && qp.type != xrc_end) {
    return fail(ErrorCode::invalid_argument, "a queue pair of {} is not connected",
                to_string(qp.type));
  }
  if (is_peer_qpn(qp.number)) return {};
  return fail(ErrorCode::invalid_argument, "{:#x} is no number of a queue pair", qp.number.value);
}

QpAttributes Connections::attributes(const ManagedConnection& connection) {
  const QpParameters& own = connection.qp;
  return {.path_mtu = connection.path_mtu_,
          .rq_psn = connection.receive_psn,
          .sq_psn = connection.send_psn,
          .dest_qp_num = connection.remote_qpn_,
          .qp_access_flags = own.access_flags,
          .ah_attr = connection.path(),
          .pkey_index = connection.pkey_index(),
          .max_rd_atomic = std::min(own.initiator_depth, connection.peer_.responder_resources),
          .max_dest_rd_atomic = own.responder_resources,
          .min_rnr_timer = own.min_rnr_timer,
          .timeout = own.ack_timeout,
          .retry_cnt = own.retry_cnt,
          .rnr_retry = own.rnr_retry};
}

QueuePair* Connections::own_qp(const ManagedConnection& connection) const {
  return !connection.has_external_qp &&
                 parts_.table.find_by_local_qpn(connection.local_qpn_) == &connection
             ? parts_.engine.find_qp(connection.local_qpn_)
             : nullptr;
}

void Connections::fail_qp(const ManagedConnection& connection) const {
  QueuePair* qp = own_qp(connection);
  if (qp != nullptr && qp->state() != QpState::reset) {
    (void)qp->modify({.qp_state = QpState::err}, kQpState);
  }
}

// Their timer.

void Connections::await_answer(ManagedConnection& connection, const Mad& request) {
  connection.pending.await(parts_.timers, parts_.now_ns, request,
                           timeout_ns(parts_.config.response_timeout), parts_.config.max_retries);
}

void Connections::on_timer(ManagedConnection& connection) {
  switch (connection.state_) {
    case State::req_sent:
    case State::rep_sent:
    case State::dreq_sent:
      // What has not left yet cannot have been answered, and leaves by itself.
      if (!parts_.messenger.resolves(connection.path_.destination)) {
        if (!connection.pending.use_retry()) return on_no_answer(connection);
        parts_.messenger.repeat(connection.path_, connection.pending.message());
      }
      connection.pending.wait_again(parts_.timers, parts_.now_ns);
      return;
    case State::req_rcvd:
      // The application took so long that the peer has given up.
      parts_.counters.timeouts.add();
      parts_.listeners.leave(connection.place, connection.service_id_);
      parts_.tell({.type = EventType::unreachable, .connection = &connection});
      return close(connection);
    case State::timewait:
      parts_.tell({.type = EventType::timewait_exit, .connection = &connection});
      return close(connection);
    case State::rep_rcvd:
    case State::established:
    case State::closed:
      return;
  }
}

void Connections::on_no_answer(ManagedConnection& connection) {
  parts_.counters.timeouts.add();
  if (connection.state_ == State::dreq_sent) {
    return enter_timewait(connection, EventType::disconnected);
  }
  parts_.messenger.reject(connection.path_, connection.transaction_id,
                          {.local_communication_id = connection.local_id_,
                           .remote_communication_id = connection.remote_id,
                           .about = AboutMessage::other,
                           .reason = RejectReason::timeout});
  if (connection.state_ == State::rep_sent) {
    fail_qp(connection);
    return enter_timewait(connection, EventType::unreachable);
  }
  parts_.tell({.type = EventType::unreachable, .connection = &connection});
  close(connection);
}

// How they are over.

Expected<void> Connections::disconnect(ManagedConnection& connection) {
  switch (connection.state_) {
    case State::established:
    case State::rep_sent:
      fail_qp(connection);
      connection.state_ = State::dreq_sent;
      connection.transaction_id = parts_.config.random->next();
      await_answer(connection, parts_.messenger.send(
                                   connection.path_, connection.transaction_id,
                                   wire::cm::Dreq{.local_communication_id = connection.local_id_,
                                                  .remote_communication_id = connection.remote_id,
                                                  .remote_qpn = connection.remote_qpn_}));
      return {};
    case State::dreq_sent:
    case State::timewait:
      return {};
    case State::req_sent:
    case State::req_rcvd:
    case State::rep_rcvd:
    case State::closed:
      break;
  }
  return fail(ErrorCode::invalid_state, "not connected: the connection is in {}",
              to_string(connection.state_));
}

void Connections::end_stale(ManagedConnection& connection) {
  parts_.counters.stale_connections.add();
  switch (connection.state_) {
    case State::established:
    case State::rep_sent:
      (void)disconnect(connection);
      return;
    case State::req_rcvd:
    case State::rep_rcvd:
      parts_.listeners.leave(connection.place, connection.service_id_);
      parts_.tell({.type = EventType::rejected,
                   .connection = &connection,
                   .reason = RejectReason::stale_connection});
      return close(connection);
    case State::req_sent:
    case State::dreq_sent:
    case State::timewait:
    case State::closed:
      return;
  }
}

/// Packets of the old connection may still be on their way: it stays to be recognised for that time
/// (IBTA vol. 1, 12.9.8.4).
void Connections::enter_timewait(ManagedConnection& connection, EventType event) {
  connection.state_ = State::timewait;
  parts_.table.detach(connection);
  const auto code = static_cast<std::uint8_t>(
      std::min<unsigned>(connection.qp.ack_timeout + 1u, kTimeoutCodeMax));
  connection.pending.wait_until(parts_.timers, parts_.now_ns + timeout_ns(code));
  parts_.tell({.type = event, .connection = &connection});
}

void Connections::close(ManagedConnection& connection, const Mad& last_word) {
  connection.state_ = State::closed;
  connection.pending.keep(parts_.timers, last_word);
  parts_.table.detach(connection);
  if (connection.is_released) forget(connection);
}

}  // namespace rockhopper::roce::cm
