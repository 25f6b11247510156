// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/cm/active.h"

#include <algorithm>

#include "roce/cm/private_data.h"

namespace rockhopper::roce::cm {

using wire::cm::AboutMessage;
using wire::cm::RejectReason;
using wire::cm::TransportService;

namespace {

TransportService transport_of(QpType type) {
  if (is_xrc(type)) return TransportService::extended;
  return type == QpType::uc ? TransportService::uc : TransportService::rc;
}

}  // namespace

std::uint32_t ActiveSide::mtu_of(const ConnectParameters& parameters) const {
  return parameters.path_mtu == 0 ? parts_.engine.max_path_mtu() : parameters.path_mtu;
}

Expected<void> ActiveSide::check(const ConnectParameters& parameters) const {
  const std::uint32_t mtu = mtu_of(parameters);
  if (wire::cm::mtu_code(mtu) == 0 || mtu > parts_.engine.max_path_mtu()) {
    return fail(ErrorCode::invalid_argument, "{} is no path MTU of this port", mtu);
  }
  ROCKHOPPER_TRY(check_private_data<wire::cm::Req>(
      parameters.private_data, parameters.offer != kNoCapabilities ? CapabilityBlock::kSize : 0));
  return check_address_vector(parameters.path);
}

Expected<Connection*> ActiveSide::connect(QueuePair& qp, const ConnectParameters& parameters) {
  ROCKHOPPER_TRY(check(parameters));
  ROCKHOPPER_TRY(connections_.to_init(qp, parameters.qp, parameters.pkey_index));
  return start(Connections::describe(qp), true, parameters);
}

Expected<Connection*> ActiveSide::connect(const ExternalQp& qp,
                                          const ConnectParameters& parameters) {
  ROCKHOPPER_TRY(check(parameters));
  ROCKHOPPER_TRY(Connections::check_external(qp, QpType::xrc_send));
  ROCKHOPPER_TRY([[maybe_unused]] const auto pkey, parts_.engine.valid_pkey(parameters.pkey_index));
  return start(qp, false, parameters);
}

Expected<Connection*> ActiveSide::start(const ExternalQp& qp, bool moves,
                                        const ConnectParameters& parameters) {
  if (parts_.table.is_full()) {
    return fail(ErrorCode::exhausted, "all {} connections are in use", parts_.table.size());
  }
  ManagedConnection& connection = connections_.make(true);
  connection.qp_type_ = qp.type;
  connection.path_ = {parameters.path, parameters.pkey_index};
  connection.service_id_ = parameters.service_id;
  connection.transaction_id = parts_.config.random->next();
  connection.path_mtu_ = static_cast<PathMtu>(mtu_of(parameters));
  connection.local_qpn_ = qp.number;
  connection.has_external_qp = !moves;
  connection.has_srq = qp.has_srq;
  connection.has_flow_control = qp.has_flow_control;
  if (moves) parts_.table.set_local_qpn(connection);
  connection.receive_psn = parts_.engine.random_psn();
  connection.qp = parameters.qp;
  connection.offer = parameters.offer;
  send_req(connection, parameters.private_data);
  return &connection;
}

void ActiveSide::send_req(ManagedConnection& connection,
                          std::span<const std::uint8_t> private_data) {
  const MadPath& path = connection.path_;
  wire::cm::Req req{
      .local_communication_id = connection.local_id_,
      .service_id = connection.service_id_,
      .local_ca_guid = parts_.messenger.ca_guid(),
      .local_qpn = connection.local_qpn_,
      .responder_resources = connection.qp.responder_resources,
      .initiator_depth = connection.qp.initiator_depth,
      .remote_cm_response_timeout = parts_.config.response_timeout,
      .transport_service = transport_of(connection.qp_type_),
      .end_to_end_flow_control = connection.has_flow_control,
      .starting_psn = connection.receive_psn,
      .local_cm_response_timeout = parts_.config.response_timeout,
      .retry_count = connection.qp.retry_cnt,
      .pkey = *parts_.engine.query_pkey(path.pkey_index),
      .path_mtu_code = wire::cm::mtu_code(bytes(connection.path_mtu_)),
      .rnr_retry_count = connection.qp.rnr_retry,
      .max_cm_retries = parts_.config.max_retries,
      .srq = connection.has_srq,
      .extended_transport = is_xrc(connection.qp_type_) ? wire::cm::kExtendedXrc : std::uint8_t{0},
      .primary_local_gid = path.source.bytes,
      .primary_remote_gid = path.destination.bytes,
      .primary_flow_label = path.flow_label,
      .primary_traffic_class = path.traffic_class,
      .primary_hop_limit = path.hop_limit,
      .primary_sl = path.service_level,
      .primary_local_ack_timeout = connection.qp.ack_timeout};
  set_private_data(req, private_data);
  if (connection.offer != kNoCapabilities) {
    CapabilityBlock{.bits = connection.offer}.emit(req.private_data);
  }
  connections_.await_answer(connection,
                            parts_.messenger.send(path, connection.transaction_id, req));
}

void ActiveSide::on_rep(const ReceivedMad& mad, std::uint64_t transaction_id,
                        const wire::cm::Rep& rep) {
  ManagedConnection* connection =
      connections_.find(mad, rep.remote_communication_id, rep.local_communication_id);
  if (connection == nullptr) {
    // It would be repeated for long.
    parts_.messenger.reject(mad.reply, transaction_id,
                            {.local_communication_id = rep.remote_communication_id,
                             .remote_communication_id = rep.local_communication_id,
                             .about = AboutMessage::rep,
                             .reason = RejectReason::invalid_communication_id});
    return;
  }
  if (!connection->active_) {
    parts_.counters.unexpected_messages.add();
    return;
  }
  if (connection->state_ == State::established || connection->state_ == State::rep_rcvd) {
    return on_repeated_rep(*connection);
  }
  if (connection->state_ != State::req_sent) {
    parts_.counters.unexpected_messages.add();
    return;
  }
  if (const auto reason = take_reply(*connection, rep)) {
    connections_.fail_qp(*connection);
    parts_.messenger.reject(connection->path_, connection->transaction_id,
                            {.local_communication_id = connection->local_id_,
                             .remote_communication_id = rep.local_communication_id,
                             .about = AboutMessage::rep,
                             .reason = *reason});
    parts_.tell({.type = EventType::connect_error, .connection = connection});
    return connections_.close(*connection);
  }
  const bool told =
      connection->offer != kNoCapabilities && CapabilityBlock::parse(rep.private_data).has_value();
  const bool waits = connection->state_ == State::rep_rcvd;
  if (!waits) {
    send_rtu(*connection);
    parts_.counters.established.add();
  }
  parts_.tell({.type = waits ? EventType::connect_response : EventType::established,
               .connection = connection,
               .private_data = PrivateData(without_capabilities(rep.private_data, told))});
}

void ActiveSide::on_repeated_rep(const ManagedConnection& connection) {
  parts_.counters.duplicate_messages.add();
  // Either the RTU was lost or the application takes its time.
  if (connection.state_ == State::established) return send_rtu(connection);
  parts_.messenger.send(connection.path_, connection.transaction_id,
                        wire::cm::Mra{.local_communication_id = connection.local_id_,
                                      .remote_communication_id = connection.remote_id,
                                      .about = AboutMessage::rep,
                                      .service_timeout = parts_.config.service_timeout});
}

std::optional<RejectReason> ActiveSide::take_reply(ManagedConnection& connection,
                                                   const wire::cm::Rep& rep) {
  const wire::Qpn number = is_xrc(connection.qp_type_) ? rep.local_eecn : rep.local_qpn;
  if (!is_peer_qpn(number)) return RejectReason::unsupported_request;
  ManagedConnection* old =
      parts_.table.find_by_remote_qpn({connection.path_.destination, number.value});
  if (old != nullptr) {
    connections_.end_stale(*old);
    return RejectReason::stale_connection;
  }
  connection.remote_id = rep.local_communication_id;
  connection.remote_qpn_ = number;
  connection.send_psn = rep.starting_psn;
  connection.peer_ = {.responder_resources = rep.responder_resources,
                      .initiator_depth = rep.initiator_depth,
                      .rnr_retry = rep.rnr_retry_count,
                      .has_flow_control = rep.end_to_end_flow_control,
                      .has_srq = rep.srq};
  connection.qp.rnr_retry = rep.rnr_retry_count;
  if (connection.offer != kNoCapabilities) {
    const auto told = CapabilityBlock::parse(rep.private_data);
    connection.agreed_ = static_cast<Capabilities>(told ? told->bits & connection.offer : 0);
  }
  if (const auto reason = move(connection)) return reason;
  connection.pending.stop(parts_.timers);
  connection.state_ = connection.has_external_qp ? State::rep_rcvd : State::established;
  parts_.table.set_remote_qpn(connection);
  return std::nullopt;
}

std::optional<RejectReason> ActiveSide::move(ManagedConnection& connection) {
  if (connection.has_external_qp) return std::nullopt;
  QueuePair* qp = connections_.own_qp(connection);
  if (qp == nullptr || !connections_.to_rts(*qp, connection)) return RejectReason::consumer;
  return std::nullopt;
}

Expected<void> ActiveSide::confirm(ManagedConnection& connection) {
  if (connection.state_ != State::rep_rcvd) {
    return fail(ErrorCode::invalid_state, "there is no reply to confirm: the connection is in {}",
                to_string(connection.state_));
  }
  connection.state_ = State::established;
  send_rtu(connection);
  parts_.counters.established.add();
  return {};
}

Expected<void> ActiveSide::reject(ManagedConnection& connection,
                                  std::span<const std::uint8_t> private_data, RejectReason reason) {
  ROCKHOPPER_TRY(check_private_data<wire::cm::Rej>(private_data));
  wire::cm::Rej rej{.local_communication_id = connection.local_id_,
                    .remote_communication_id = connection.remote_id,
                    .about = AboutMessage::rep,
                    .reason = reason};
  set_private_data(rej, private_data);
  parts_.messenger.reject(connection.path_, connection.transaction_id, rej);
  connections_.close(connection);
  return {};
}

void ActiveSide::send_rtu(const ManagedConnection& connection) {
  parts_.messenger.send(connection.path_, connection.transaction_id,
                        wire::cm::Rtu{.local_communication_id = connection.local_id_,
                                      .remote_communication_id = connection.remote_id});
}

void ActiveSide::on_mra(const ReceivedMad& mad, const wire::cm::Mra& mra) {
  ManagedConnection* connection =
      connections_.find(mad, mra.remote_communication_id, mra.local_communication_id);
  if (connection == nullptr) return;
  const bool expected = (connection->state_ == State::req_sent && mra.about == AboutMessage::req) ||
                        (connection->state_ == State::rep_sent && mra.about == AboutMessage::rep);
  if (!expected) {
    parts_.counters.unexpected_messages.add();
    return;
  }
  connection->pending.wait_again(parts_.timers, parts_.now_ns,
                                 timeout_ns(std::min(mra.service_timeout, kTimeoutCodeMax)));
}

}  // namespace rockhopper::roce::cm
