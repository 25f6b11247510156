// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The active side of a connection: REQ out, REP in, RTU out (IBTA vol. 1, 12.9.6).
#include <algorithm>

#include "roce/cm/connection_manager.h"
#include "roce/cm/private_data.h"

namespace rockhopper::roce::cm {

using wire::cm::AboutMessage;
using wire::cm::RejectReason;
using wire::cm::TransportService;

Expected<Connection*> ConnectionManager::connect(QueuePair& qp,
                                                 const ConnectParameters& parameters) {
  const std::uint32_t mtu =
      parameters.path_mtu == 0 ? config_.engine->max_path_mtu() : parameters.path_mtu;
  if (wire::cm::mtu_code(mtu) == 0 || mtu > config_.engine->max_path_mtu()) {
    return fail(ErrorCode::invalid_argument, "{} is no path MTU of this port", mtu);
  }
  ROCKHOPPER_TRY(check_private_data<wire::cm::Req>(
      parameters.private_data, parameters.offer != kNoCapabilities ? CapabilityBlock::kSize : 0));
  ROCKHOPPER_TRY(check_address_vector(parameters.path));
  ROCKHOPPER_TRY(to_init(qp, parameters.qp, parameters.pkey_index));
  ROCKHOPPER_TRY(auto made, make_connection(true));
  Connection& connection = *made;
  connection.transport_ =
      qp.init().qp_type == QpType::uc ? TransportService::uc : TransportService::rc;
  connection.path_ = {parameters.path, parameters.pkey_index};
  connection.service_id_ = parameters.service_id;
  connection.transaction_id_ = config_.random->next();
  connection.path_mtu_ = static_cast<PathMtu>(mtu);
  connection.local_qpn_ = qp.number();
  by_local_qpn_[qp.number().value] = &connection;
  connection.receive_psn_ = config_.engine->random_psn();
  connection.qp_ = parameters.qp;
  connection.offer_ = parameters.offer;
  send_req(connection, parameters.private_data);
  return &connection;
}

void ConnectionManager::send_req(Connection& connection,
                                 std::span<const std::uint8_t> private_data) {
  const MadPath& path = connection.path_;
  wire::cm::Req req{.local_communication_id = connection.local_id_,
                    .service_id = connection.service_id_,
                    .local_ca_guid = ca_guid_,
                    .local_qpn = connection.local_qpn_,
                    .responder_resources = connection.qp_.responder_resources,
                    .initiator_depth = connection.qp_.initiator_depth,
                    .remote_cm_response_timeout = config_.response_timeout,
                    .transport_service = connection.transport_,
                    .starting_psn = connection.receive_psn_,
                    .local_cm_response_timeout = config_.response_timeout,
                    .retry_count = connection.qp_.retry_cnt,
                    .pkey = *config_.engine->query_pkey(path.pkey_index),
                    .path_mtu_code = wire::cm::mtu_code(bytes(connection.path_mtu_)),
                    .rnr_retry_count = connection.qp_.rnr_retry,
                    .max_cm_retries = config_.max_retries,
                    .primary_local_gid = path.source.bytes,
                    .primary_remote_gid = path.destination.bytes,
                    .primary_flow_label = path.flow_label,
                    .primary_traffic_class = path.traffic_class,
                    .primary_hop_limit = path.hop_limit,
                    .primary_sl = path.service_level,
                    .primary_local_ack_timeout = connection.qp_.ack_timeout};
  set_private_data(req, private_data);
  if (connection.offer_ != kNoCapabilities) {
    CapabilityBlock{.bits = connection.offer_}.emit(req.private_data);
  }
  await_answer(connection, config_.response_timeout, config_.max_retries,
               send(path, connection.transaction_id_, req));
}

void ConnectionManager::on_rep(const ReceivedMad& mad, std::uint64_t transaction_id,
                               const wire::cm::Rep& rep) {
  Connection* connection = find(mad, rep.remote_communication_id, rep.local_communication_id);
  if (connection == nullptr) {
    // It would be repeated for long.
    send_reject(mad.reply, transaction_id,
                {.local_communication_id = rep.remote_communication_id,
                 .remote_communication_id = rep.local_communication_id,
                 .about = AboutMessage::rep,
                 .reason = RejectReason::invalid_communication_id});
    return;
  }
  if (!connection->active_) {
    counters_.unexpected_messages.add();
    return;
  }
  if (connection->state_ == State::established) {
    // The RTU was lost.
    counters_.duplicate_messages.add();
    return send_rtu(*connection);
  }
  if (connection->state_ != State::req_sent) {
    counters_.unexpected_messages.add();
    return;
  }
  if (const auto reason = take_reply(*connection, rep)) {
    fail_qp(*connection);
    send_reject(connection->path_, connection->transaction_id_,
                {.local_communication_id = connection->local_id_,
                 .remote_communication_id = rep.local_communication_id,
                 .about = AboutMessage::rep,
                 .reason = *reason});
    tell({.type = EventType::connect_error, .connection = connection});
    return close(*connection);
  }
  send_rtu(*connection);
  counters_.established.add();
  const bool told =
      connection->offer_ != kNoCapabilities && CapabilityBlock::parse(rep.private_data).has_value();
  tell({.type = EventType::established,
        .connection = connection,
        .private_data = PrivateData(without_capabilities(rep.private_data, told))});
}

std::optional<RejectReason> ConnectionManager::take_reply(Connection& connection,
                                                          const wire::cm::Rep& rep) {
  if (!is_peer_qpn(rep.local_qpn)) return RejectReason::unsupported_request;
  const auto old = by_remote_qpn_.find({connection.path_.destination, rep.local_qpn.value});
  if (old != by_remote_qpn_.end()) {
    on_stale(*old->second);
    return RejectReason::stale_connection;
  }
  QueuePair* qp = own_qp(connection);
  if (qp == nullptr) return RejectReason::consumer;
  connection.remote_id_ = rep.local_communication_id;
  connection.remote_qpn_ = rep.local_qpn;
  connection.send_psn_ = rep.starting_psn;
  connection.peer_responder_resources_ = rep.responder_resources;
  connection.qp_.rnr_retry = rep.rnr_retry_count;
  if (connection.offer_ != kNoCapabilities) {
    const auto told = CapabilityBlock::parse(rep.private_data);
    connection.agreed_ = static_cast<Capabilities>(told ? told->bits & connection.offer_ : 0);
  }
  if (!to_rts(*qp, connection)) return RejectReason::consumer;
  timers_.cancel(connection.timer_);
  connection.state_ = State::established;
  by_remote_qpn_.insert({{connection.path_.destination, rep.local_qpn.value}, &connection});
  return std::nullopt;
}

void ConnectionManager::send_rtu(Connection& connection) {
  send(connection.path_, connection.transaction_id_,
       wire::cm::Rtu{.local_communication_id = connection.local_id_,
                     .remote_communication_id = connection.remote_id_});
}

/// The peer's application takes its time: wait for it that much longer (IBTA vol. 1, 12.6.6).
void ConnectionManager::on_mra(const ReceivedMad& mad, const wire::cm::Mra& mra) {
  Connection* connection = find(mad, mra.remote_communication_id, mra.local_communication_id);
  if (connection == nullptr) return;
  const bool expected = (connection->state_ == State::req_sent && mra.about == AboutMessage::req) ||
                        (connection->state_ == State::rep_sent && mra.about == AboutMessage::rep);
  if (!expected) {
    counters_.unexpected_messages.add();
    return;
  }
  timers_.arm(connection->timer_, now_ns_ + connection->answer_timeout_ns_ +
                                      timeout_ns(std::min(mra.service_timeout, kTimeoutCodeMax)));
}

}  // namespace rockhopper::roce::cm
