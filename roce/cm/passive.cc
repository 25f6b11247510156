// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/cm/passive.h"

#include <algorithm>

#include "roce/cm/private_data.h"

namespace rockhopper::roce::cm {

using wire::cm::AboutMessage;
using wire::cm::RejectReason;
using wire::cm::TransportService;

namespace {

/// Returns the type of the queue pair that a request is for, if there is such a one.
std::optional<QpType> requested_type(const wire::cm::Req& req) {
  switch (req.transport_service) {
    case TransportService::rc:
      return QpType::rc;
    case TransportService::uc:
      return QpType::uc;
    case TransportService::extended:
      if (req.extended_transport == wire::cm::kExtendedXrc) return QpType::xrc_recv;
      break;
    case TransportService::rd:
      break;
  }
  return std::nullopt;
}

}  // namespace

void PassiveSide::on_req(const ReceivedMad& mad, std::uint64_t transaction_id,
                         const wire::cm::Req& req) {
  // On RoCE the GIDs are the addresses: nobody asks in another's name.
  if (req.primary_local_gid != mad.reply.destination.bytes ||
      req.primary_remote_gid != mad.reply.source.bytes) {
    parts_.counters.bad_address_messages.add();
    return;
  }
  if (ManagedConnection* old =
          parts_.table.find_by_remote_id({mad.reply.destination, req.local_communication_id})) {
    if (req.local_qpn == old->remote_qpn_ && req.starting_psn == old->send_psn) {
      return on_duplicate_req(*old);
    }
    // The peer numbers its connections from the beginning again: it has forgotten this one.
    if (old->state_ != State::closed) {
      connections_.end_stale(*old);
      parts_.messenger.reject(mad.reply, transaction_id,
                              {.remote_communication_id = req.local_communication_id,
                               .about = AboutMessage::req,
                               .reason = RejectReason::duplicate_local_communication_id});
      return;
    }
  }
  const auto refused = refusal(mad, req);
  if (!refused) return make(mad, transaction_id, req);
  if (refused->counter != nullptr) (parts_.counters.*refused->counter).add();
  if (refused->reason == RejectReason::stale_connection) {
    connections_.end_stale(
        *parts_.table.find_by_remote_qpn({mad.reply.destination, req.local_qpn.value}));
  }
  parts_.messenger.reject(mad.reply, transaction_id,
                          {.remote_communication_id = req.local_communication_id,
                           .about = AboutMessage::req,
                           .reason = refused->reason});
}

/// A new connection, which waits for the application.
void PassiveSide::make(const ReceivedMad& mad, std::uint64_t transaction_id,
                       const wire::cm::Req& req) {
  ManagedConnection& connection = connections_.make(false);
  connection.state_ = State::req_rcvd;
  connection.qp_type_ = *requested_type(req);
  connection.path_mtu_ = static_cast<PathMtu>(wire::cm::mtu_bytes(req.path_mtu_code));
  connection.path_ = path_of(mad, req);
  connection.service_id_ = req.service_id;
  connection.transaction_id = transaction_id;
  connection.remote_id = req.local_communication_id;
  connection.remote_qpn_ = req.local_qpn;
  connection.send_psn = req.starting_psn;
  connection.receive_psn = parts_.engine.random_psn();
  connection.peer_ = {.responder_resources = req.responder_resources,
                      .initiator_depth = req.initiator_depth,
                      .retry_cnt = req.retry_count,
                      .rnr_retry = req.rnr_retry_count,
                      .has_flow_control = req.end_to_end_flow_control,
                      .has_srq = req.srq};
  // What the peer asks for: an external queue pair is moved before it is accepted.
  connection.qp = {.responder_resources = req.initiator_depth,
                   .initiator_depth = req.responder_resources,
                   .retry_cnt = req.retry_count,
                   .rnr_retry = req.rnr_retry_count,
                   .ack_timeout = req.primary_local_ack_timeout};
  connection.reply_timeout_ns =
      timeout_ns(std::min(req.local_cm_response_timeout, kTimeoutCodeMax));
  connection.reply_retries = req.max_cm_retries;
  parts_.table.set_remote_id(connection);
  parts_.table.set_remote_qpn(connection);
  parts_.listeners.take(connection.place, req.service_id);
  // Only an end that offers something looks for offers.
  const Capabilities offer = parts_.listeners.offer(req.service_id);
  const auto offered =
      offer != kNoCapabilities ? CapabilityBlock::parse(req.private_data) : std::nullopt;
  if (offered) {
    connection.offer = offer;
    connection.agreed_ = static_cast<Capabilities>(offer & offered->bits);
  }
  connection.peer_patience_ns =
      timeout_ns(std::min(req.remote_cm_response_timeout, kTimeoutCodeMax)) *
      (req.max_cm_retries + 1u);
  connection.pending.wait_until(parts_.timers, parts_.now_ns + connection.peer_patience_ns);
  parts_.tell(
      {.type = EventType::connect_request,
       .connection = &connection,
       .private_data = PrivateData(without_capabilities(req.private_data, offered.has_value()))});
}

MadPath PassiveSide::path_of(const ReceivedMad& mad, const wire::cm::Req& req) const {
  MadPath path = mad.reply;
  path.pkey_index = parts_.engine.find_pkey(req.pkey).value_or(path.pkey_index);
  path.traffic_class = req.primary_traffic_class;
  path.flow_label = req.primary_flow_label;
  path.service_level = req.primary_sl & 7;
  // 1 says that no router is on the way. More does no harm.
  path.hop_limit = std::max<std::uint8_t>(req.primary_hop_limit, AddressVector{}.hop_limit);
  return path;
}

/// Returns why a new request cannot become a connection, if so.
std::optional<PassiveSide::Refusal> PassiveSide::refusal(const ReceivedMad& mad,
                                                         const wire::cm::Req& req) const {
  if (!parts_.listeners.has(req.service_id)) return Refusal{RejectReason::invalid_service_id};
  const auto type = requested_type(req);
  if (!type || (is_xrc(*type) && !parts_.config.accepts_xrc)) {
    return Refusal{RejectReason::invalid_transport_service_type};
  }
  const std::uint32_t mtu = wire::cm::mtu_bytes(req.path_mtu_code);
  if (mtu == 0 || mtu > parts_.engine.max_path_mtu()) {
    return Refusal{RejectReason::invalid_path_mtu};
  }
  if (!is_peer_qpn(req.local_qpn) || !check_address_vector(path_of(mad, req))) {
    return Refusal{RejectReason::unsupported_request};
  }
  // No reason is about partitions. Linux gives this one.
  if (!parts_.engine.find_pkey(req.pkey)) return Refusal{RejectReason::primary_remote_port_gid};
  if (parts_.table.find_by_remote_qpn({mad.reply.destination, req.local_qpn.value}) != nullptr) {
    return Refusal{RejectReason::stale_connection};
  }
  if (parts_.listeners.is_crowded(req.service_id)) {
    return Refusal{RejectReason::no_resources, &Counters::refused_backlog};
  }
  if (parts_.table.is_full()) return Refusal{RejectReason::no_resources, &Counters::refused_limit};
  return std::nullopt;
}

void PassiveSide::on_duplicate_req(ManagedConnection& connection) {
  parts_.counters.duplicate_messages.add();
  switch (connection.state_) {
    case State::req_rcvd:
      parts_.messenger.send(connection.path_, connection.transaction_id,
                            wire::cm::Mra{.local_communication_id = connection.local_id_,
                                          .remote_communication_id = connection.remote_id,
                                          .about = AboutMessage::req,
                                          .service_timeout = parts_.config.service_timeout});
      // We asked it to wait, so it will, and then go on asking.
      connection.pending.wait_until(
          parts_.timers,
          parts_.now_ns + timeout_ns(parts_.config.service_timeout) + connection.peer_patience_ns);
      return;
    case State::rep_sent:
      return parts_.messenger.repeat(connection.path_, connection.pending.message());
    case State::closed:
      // The REJ was lost.
      if (connection.pending.has_message()) {
        parts_.messenger.repeat(connection.path_, connection.pending.message());
      }
      return;
    case State::req_sent:
    case State::rep_rcvd:
    case State::established:
    case State::dreq_sent:
    case State::timewait:
      return;
  }
}

Expected<void> PassiveSide::check_answer(const ManagedConnection& connection, QpType type,
                                         std::span<const std::uint8_t> private_data) {
  if (connection.state_ != State::req_rcvd) {
    return fail(ErrorCode::invalid_state, "the connection waits for no answer: it is in {}",
                to_string(connection.state_));
  }
  if (type != connection.qp_type_) {
    return fail(ErrorCode::invalid_argument, "the request is for a queue pair of {}, not of {}",
                to_string(connection.qp_type_), to_string(type));
  }
  return check_private_data<wire::cm::Rep>(
      private_data, connection.offer != kNoCapabilities ? CapabilityBlock::kSize : 0);
}

/// Retries are what the peer asks for (12.6.5), the rest is ours.
void PassiveSide::set_parameters(ManagedConnection& connection, const QpParameters& parameters) {
  const QpParameters asked = connection.qp;
  connection.qp = parameters;
  connection.qp.retry_cnt = asked.retry_cnt;
  connection.qp.rnr_retry = asked.rnr_retry;
  if (parameters.ack_timeout == 0) connection.qp.ack_timeout = asked.ack_timeout;
  connection.qp.responder_resources =
      std::min(parameters.responder_resources, connection.peer_.initiator_depth);
}

Expected<void> PassiveSide::accept(ManagedConnection& connection, QueuePair& qp,
                                   const QpParameters& parameters,
                                   std::span<const std::uint8_t> private_data) {
  ROCKHOPPER_TRY(check_answer(connection, qp.init().qp_type, private_data));
  ROCKHOPPER_TRY(connections_.to_init(qp, parameters, connection.path_.pkey_index));
  const QpParameters asked = connection.qp;
  set_parameters(connection, parameters);
  connection.local_qpn_ = qp.number();
  if (auto ready = connections_.to_rts(qp, connection); !ready) {
    connection.qp = asked;
    connection.local_qpn_ = {};
    return ready;
  }
  const ExternalQp described = Connections::describe(qp);
  connection.has_srq = described.has_srq;
  connection.has_flow_control = described.has_flow_control;
  parts_.table.set_local_qpn(connection);
  send_rep(connection, parameters.rnr_retry, private_data);
  return {};
}

Expected<void> PassiveSide::accept(ManagedConnection& connection, const ExternalQp& qp,
                                   const QpParameters& parameters,
                                   std::span<const std::uint8_t> private_data) {
  ROCKHOPPER_TRY(check_answer(connection, qp.type, private_data));
  ROCKHOPPER_TRY(Connections::check_external(qp, QpType::xrc_recv));
  set_parameters(connection, parameters);
  connection.has_external_qp = true;
  connection.has_srq = qp.has_srq;
  connection.has_flow_control = qp.has_flow_control;
  connection.local_qpn_ = qp.number;
  send_rep(connection, parameters.rnr_retry, private_data);
  return {};
}

void PassiveSide::send_rep(ManagedConnection& connection, std::uint8_t rnr_retry,
                           std::span<const std::uint8_t> private_data) {
  parts_.listeners.leave(connection.place, connection.service_id_);
  connection.state_ = State::rep_sent;
  constexpr std::uint8_t kTargetAckDelay = 10;  // 4 ms: an lcore may be shared
  const bool extended = is_xrc(connection.qp_type_);
  wire::cm::Rep rep{.local_communication_id = connection.local_id_,
                    .remote_communication_id = connection.remote_id,
                    .local_qpn = extended ? wire::Qpn{} : connection.local_qpn_,
                    .local_eecn = extended ? connection.local_qpn_ : wire::Qpn{},
                    .starting_psn = connection.receive_psn,
                    .responder_resources = connection.qp.responder_resources,
                    .initiator_depth = std::min(connection.qp.initiator_depth,
                                                connection.peer_.responder_resources),
                    .target_ack_delay = kTargetAckDelay,
                    .failover_accepted = 0,
                    .end_to_end_flow_control = connection.has_flow_control,
                    .rnr_retry_count = rnr_retry,
                    .srq = extended || connection.has_srq,
                    .local_ca_guid = parts_.messenger.ca_guid()};
  set_private_data(rep, private_data);
  if (connection.offer != kNoCapabilities) {
    CapabilityBlock{.bits = connection.agreed_}.emit(rep.private_data);
  }
  connection.pending.await(parts_.timers, parts_.now_ns,
                           parts_.messenger.send(connection.path_, connection.transaction_id, rep),
                           connection.reply_timeout_ns, connection.reply_retries);
}

Expected<void> PassiveSide::reject(ManagedConnection& connection,
                                   std::span<const std::uint8_t> private_data,
                                   RejectReason reason) {
  if (connection.state_ != State::req_rcvd) {
    return fail(ErrorCode::invalid_state, "the connection waits for no answer: it is in {}",
                to_string(connection.state_));
  }
  ROCKHOPPER_TRY(check_private_data<wire::cm::Rej>(private_data));
  wire::cm::Rej rej{.local_communication_id = connection.local_id_,
                    .remote_communication_id = connection.remote_id,
                    .about = AboutMessage::req,
                    .reason = reason};
  set_private_data(rej, private_data);
  parts_.listeners.leave(connection.place, connection.service_id_);
  connections_.close(connection,
                     parts_.messenger.reject(connection.path_, connection.transaction_id, rej));
  return {};
}

void PassiveSide::on_rtu(const ReceivedMad& mad, const wire::cm::Rtu& rtu) {
  ManagedConnection* connection =
      connections_.find(mad, rtu.remote_communication_id, rtu.local_communication_id);
  if (connection == nullptr) return;
  if (connection->state_ == State::established && !connection->active_) {
    parts_.counters.duplicate_messages.add();
    return;
  }
  if (connection->state_ != State::rep_sent) {
    parts_.counters.unexpected_messages.add();
    return;
  }
  become_established(*connection, PrivateData(rtu.private_data));
}

Expected<void> PassiveSide::establish(ManagedConnection& connection) {
  if (connection.state_ == State::rep_sent) become_established(connection, {});
  if (connection.state_ == State::established) return {};
  return fail(ErrorCode::invalid_state, "no packets are expected: the connection is in {}",
              to_string(connection.state_));
}

void PassiveSide::become_established(ManagedConnection& connection,
                                     const PrivateData& private_data) {
  connection.pending.stop(parts_.timers);
  connection.state_ = State::established;
  parts_.counters.established.add();
  parts_.tell(
      {.type = EventType::established, .connection = &connection, .private_data = private_data});
}

}  // namespace rockhopper::roce::cm
