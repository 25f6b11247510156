// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/cm/active.h"

#include <algorithm>

#include "roce/cm/private_data.h"

namespace rockhopper::roce::cm {

using wire::cm::AboutMessage;
using wire::cm::RejectReason;
using wire::cm::TransportService;

Expected<Connection*> ActiveSide::connect(QueuePair& qp, const ConnectParameters& parameters) {
  const std::uint32_t mtu =
      parameters.path_mtu == 0 ? parts_.engine.max_path_mtu() : parameters.path_mtu;
  if (wire::cm::mtu_code(mtu) == 0 || mtu > parts_.engine.max_path_mtu()) {
    return fail(ErrorCode::invalid_argument, "{} is no path MTU of this port", mtu);
  }
  ROCKHOPPER_TRY(check_private_data<wire::cm::Req>(
      parameters.private_data, parameters.offer != kNoCapabilities ? CapabilityBlock::kSize : 0));
  ROCKHOPPER_TRY(check_address_vector(parameters.path));
  ROCKHOPPER_TRY(connections_.to_init(qp, parameters.qp, parameters.pkey_index));
  if (parts_.table.is_full()) {
    return fail(ErrorCode::exhausted, "all {} connections are in use", parts_.table.size());
  }
  ManagedConnection& connection = connections_.make(true);
  connection.transport_ =
      qp.init().qp_type == QpType::uc ? TransportService::uc : TransportService::rc;
  connection.path_ = {parameters.path, parameters.pkey_index};
  connection.service_id_ = parameters.service_id;
  connection.transaction_id = parts_.config.random->next();
  connection.path_mtu_ = static_cast<PathMtu>(mtu);
  connection.local_qpn_ = qp.number();
  parts_.table.set_local_qpn(connection);
  connection.receive_psn = parts_.engine.random_psn();
  connection.qp = parameters.qp;
  connection.offer = parameters.offer;
  send_req(connection, parameters.private_data);
  return &connection;
}

void ActiveSide::send_req(ManagedConnection& connection,
                          std::span<const std::uint8_t> private_data) {
  const MadPath& path = connection.path_;
  wire::cm::Req req{.local_communication_id = connection.local_id_,
                    .service_id = connection.service_id_,
                    .local_ca_guid = parts_.messenger.ca_guid(),
                    .local_qpn = connection.local_qpn_,
                    .responder_resources = connection.qp.responder_resources,
                    .initiator_depth = connection.qp.initiator_depth,
                    .remote_cm_response_timeout = parts_.config.response_timeout,
                    .transport_service = connection.transport_,
                    .starting_psn = connection.receive_psn,
                    .local_cm_response_timeout = parts_.config.response_timeout,
                    .retry_count = connection.qp.retry_cnt,
                    .pkey = *parts_.engine.query_pkey(path.pkey_index),
                    .path_mtu_code = wire::cm::mtu_code(bytes(connection.path_mtu_)),
                    .rnr_retry_count = connection.qp.rnr_retry,
                    .max_cm_retries = parts_.config.max_retries,
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
  if (connection->state_ == State::established) {
    // The RTU was lost.
    parts_.counters.duplicate_messages.add();
    return send_rtu(*connection);
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
  send_rtu(*connection);
  parts_.counters.established.add();
  const bool told =
      connection->offer != kNoCapabilities && CapabilityBlock::parse(rep.private_data).has_value();
  parts_.tell({.type = EventType::established,
               .connection = connection,
               .private_data = PrivateData(without_capabilities(rep.private_data, told))});
}

std::optional<RejectReason> ActiveSide::take_reply(ManagedConnection& connection,
                                                   const wire::cm::Rep& rep) {
  if (!is_peer_qpn(rep.local_qpn)) return RejectReason::unsupported_request;
  ManagedConnection* old =
      parts_.table.find_by_remote_qpn({connection.path_.destination, rep.local_qpn.value});
  if (old != nullptr) {
    connections_.end_stale(*old);
    return RejectReason::stale_connection;
  }
  QueuePair* qp = connections_.own_qp(connection);
  if (qp == nullptr) return RejectReason::consumer;
  connection.remote_id = rep.local_communication_id;
  connection.remote_qpn_ = rep.local_qpn;
  connection.send_psn = rep.starting_psn;
  connection.peer_responder_resources = rep.responder_resources;
  connection.qp.rnr_retry = rep.rnr_retry_count;
  if (connection.offer != kNoCapabilities) {
    const auto told = CapabilityBlock::parse(rep.private_data);
    connection.agreed_ = static_cast<Capabilities>(told ? told->bits & connection.offer : 0);
  }
  if (!connections_.to_rts(*qp, connection)) return RejectReason::consumer;
  connection.pending.stop(parts_.timers);
  connection.state_ = State::established;
  parts_.table.set_remote_qpn(connection);
  return std::nullopt;
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
