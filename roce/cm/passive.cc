// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The passive side of a connection: REQ in, REP out, RTU in (IBTA vol. 1, 12.9.7).
#include <algorithm>

#include "roce/cm/connection_manager.h"
#include "roce/cm/private_data.h"

namespace rockhopper::roce::cm {

using wire::cm::AboutMessage;
using wire::cm::RejectReason;
using wire::cm::TransportService;

void ConnectionManager::on_req(const ReceivedMad& mad, std::uint64_t transaction_id,
                               const wire::cm::Req& req) {
  // On RoCE the GIDs are the addresses: nobody asks in another's name.
  if (req.primary_local_gid != mad.reply.destination.bytes ||
      req.primary_remote_gid != mad.reply.source.bytes) {
    counters_.bad_address_messages.add();
    return;
  }
  const auto known = by_remote_id_.find({mad.reply.destination, req.local_communication_id});
  if (known != by_remote_id_.end()) {
    Connection& old = *known->second;
    if (req.local_qpn == old.remote_qpn_ && req.starting_psn == old.send_psn_) {
      return on_duplicate_req(old);
    }
    // The peer numbers its connections from the beginning again: it has forgotten this one.
    if (old.state_ != State::closed) {
      on_stale(old);
      send_reject(mad.reply, transaction_id,
                  {.remote_communication_id = req.local_communication_id,
                   .about = AboutMessage::req,
                   .reason = RejectReason::duplicate_local_communication_id});
      return;
    }
  }
  if (const auto refused = refusal(mad, req)) {
    if (refused->stale != nullptr) on_stale(*refused->stale);
    if (refused->counter != nullptr) (counters_.*refused->counter).add();
    send_reject(mad.reply, transaction_id,
                {.remote_communication_id = req.local_communication_id,
                 .about = AboutMessage::req,
                 .reason = refused->reason});
    return;
  }
  Connection& connection = **make_connection(false);
  connection.state_ = State::req_rcvd;
  connection.transport_ = req.transport_service;
  connection.path_mtu_ = static_cast<PathMtu>(wire::cm::mtu_bytes(req.path_mtu_code));
  connection.path_ = path_of(mad, req);
  connection.service_id_ = req.service_id;
  connection.transaction_id_ = transaction_id;
  connection.remote_id_ = req.local_communication_id;
  connection.remote_qpn_ = req.local_qpn;
  connection.send_psn_ = req.starting_psn;
  connection.peer_responder_resources_ = req.responder_resources;
  connection.peer_initiator_depth_ = req.initiator_depth;
  connection.qp_ = {.retry_cnt = req.retry_count,
                    .rnr_retry = req.rnr_retry_count,
                    .ack_timeout = req.primary_local_ack_timeout};
  connection.answer_timeout_ns_ =
      timeout_ns(std::min(req.local_cm_response_timeout, kTimeoutCodeMax));
  connection.max_retries_ = req.max_cm_retries;
  by_remote_id_.insert_or_assign({mad.reply.destination, connection.remote_id_}, &connection);
  by_remote_qpn_.insert({{mad.reply.destination, connection.remote_qpn_.value}, &connection});
  connection.waits_ = true;
  Listener& listener = listeners_.at(req.service_id);
  ++listener.waiting;
  // Only an end that offers something looks for offers.
  const auto offered =
      listener.offer != kNoCapabilities ? CapabilityBlock::parse(req.private_data) : std::nullopt;
  if (offered) {
    connection.offer_ = listener.offer;
    connection.agreed_ = static_cast<Capabilities>(listener.offer & offered->bits);
  }
  connection.peer_patience_ns_ =
      timeout_ns(std::min(req.remote_cm_response_timeout, kTimeoutCodeMax)) *
      (req.max_cm_retries + 1u);
  timers_.arm(connection.timer_, now_ns_ + connection.peer_patience_ns_);
  tell({.type = EventType::connect_request,
        .connection = &connection,
        .private_data = PrivateData(without_capabilities(req.private_data, offered.has_value()))});
}

MadPath ConnectionManager::path_of(const ReceivedMad& mad, const wire::cm::Req& req) const {
  MadPath path = mad.reply;
  path.pkey_index = config_.engine->find_pkey(req.pkey).value_or(path.pkey_index);
  path.traffic_class = req.primary_traffic_class;
  path.flow_label = req.primary_flow_label;
  path.service_level = req.primary_sl & 7;
  // 1 says that no router is on the way. More does no harm.
  path.hop_limit = std::max<std::uint8_t>(req.primary_hop_limit, AddressVector{}.hop_limit);
  return path;
}

std::optional<ConnectionManager::Refusal> ConnectionManager::refusal(
    const ReceivedMad& mad, const wire::cm::Req& req) const {
  const auto listener = listeners_.find(req.service_id);
  if (listener == listeners_.end()) return Refusal{RejectReason::invalid_service_id};
  if (req.transport_service != TransportService::rc &&
      req.transport_service != TransportService::uc) {
    return Refusal{RejectReason::invalid_transport_service_type};
  }
  const std::uint32_t mtu = wire::cm::mtu_bytes(req.path_mtu_code);
  if (mtu == 0 || mtu > config_.engine->max_path_mtu()) {
    return Refusal{RejectReason::invalid_path_mtu};
  }
  if (!is_peer_qpn(req.local_qpn) || !check_address_vector(path_of(mad, req))) {
    return Refusal{RejectReason::unsupported_request};
  }
  // No reason is about partitions. Linux gives this one.
  if (!config_.engine->find_pkey(req.pkey)) return Refusal{RejectReason::primary_remote_port_gid};
  const auto old = by_remote_qpn_.find({mad.reply.destination, req.local_qpn.value});
  if (old != by_remote_qpn_.end()) {
    return Refusal{.reason = RejectReason::stale_connection, .stale = old->second};
  }
  if (listener->second.waiting >= listener->second.backlog) {
    return Refusal{.reason = RejectReason::no_resources, .counter = &Counters::refused_backlog};
  }
  if (connections_.size() == config_.max_connections) {
    return Refusal{.reason = RejectReason::no_resources, .counter = &Counters::refused_limit};
  }
  return std::nullopt;
}

/// The peer's queue pair is connected anew, so for the peer the connection that we have is over
/// (IBTA vol. 1, 12.4.1).
void ConnectionManager::on_stale(Connection& connection) {
  counters_.stale_connections.add();
  switch (connection.state_) {
    case State::established:
    case State::rep_sent:
      static_cast<void>(disconnect(connection));
      return;
    case State::req_rcvd:
      stop_waiting(connection);
      tell({.type = EventType::rejected,
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

void ConnectionManager::on_duplicate_req(Connection& connection) {
  counters_.duplicate_messages.add();
  switch (connection.state_) {
    case State::req_rcvd:
      send(connection.path_, connection.transaction_id_,
           wire::cm::Mra{.local_communication_id = connection.local_id_,
                         .remote_communication_id = connection.remote_id_,
                         .about = AboutMessage::req,
                         .service_timeout = config_.service_timeout});
      // We asked it to wait, so it will, and then go on asking.
      timers_.arm(connection.timer_,
                  now_ns_ + timeout_ns(config_.service_timeout) + connection.peer_patience_ns_);
      return;
    case State::rep_sent:
      return repeat(connection.path_, connection.request_);
    case State::closed:
      // The REJ was lost.
      if (connection.request_ != Mad{}) repeat(connection.path_, connection.request_);
      return;
    case State::req_sent:
    case State::established:
    case State::dreq_sent:
    case State::timewait:
      return;
  }
}

Expected<void> ConnectionManager::accept(Connection& connection, QueuePair& qp,
                                         const QpParameters& parameters,
                                         std::span<const std::uint8_t> private_data) {
  if (connection.state_ != State::req_rcvd) {
    return fail(ErrorCode::invalid_state, "the connection waits for no answer: it is in {}",
                to_string(connection.state_));
  }
  ROCKHOPPER_TRY(check_private_data<wire::cm::Rep>(
      private_data, connection.offer_ != kNoCapabilities ? CapabilityBlock::kSize : 0));
  if ((qp.init().qp_type == QpType::uc) != connection.is_uc()) {
    return fail(ErrorCode::invalid_argument, "the peer's queue pair is one of {}, ours of {}",
                connection.is_uc() ? "UC" : "RC", to_string(qp.init().qp_type));
  }
  ROCKHOPPER_TRY(to_init(qp, parameters, connection.path_.pkey_index));
  // Retries are what the peer asks for (12.6.5), the rest is ours.
  const QpParameters asked = connection.qp_;
  connection.qp_ = parameters;
  connection.qp_.retry_cnt = asked.retry_cnt;
  connection.qp_.rnr_retry = asked.rnr_retry;
  if (parameters.ack_timeout == 0) connection.qp_.ack_timeout = asked.ack_timeout;
  connection.qp_.responder_resources =
      std::min(parameters.responder_resources, connection.peer_initiator_depth_);
  connection.local_qpn_ = qp.number();
  connection.receive_psn_ = config_.engine->random_psn();
  if (auto ready = to_rts(qp, connection); !ready) {
    connection.qp_ = asked;
    connection.local_qpn_ = {};
    return ready;
  }
  by_local_qpn_[qp.number().value] = &connection;
  stop_waiting(connection);
  connection.state_ = State::rep_sent;
  send_rep(connection, parameters.rnr_retry, private_data);
  return {};
}

void ConnectionManager::send_rep(Connection& connection, std::uint8_t rnr_retry,
                                 std::span<const std::uint8_t> private_data) {
  constexpr std::uint8_t kTargetAckDelay = 10;  // 4 ms: an lcore may be shared
  wire::cm::Rep rep{.local_communication_id = connection.local_id_,
                    .remote_communication_id = connection.remote_id_,
                    .local_qpn = connection.local_qpn_,
                    .starting_psn = connection.receive_psn_,
                    .responder_resources = connection.qp_.responder_resources,
                    .initiator_depth = std::min(connection.qp_.initiator_depth,
                                                connection.peer_responder_resources_),
                    .target_ack_delay = kTargetAckDelay,
                    .failover_accepted = 0,
                    .rnr_retry_count = rnr_retry,
                    .local_ca_guid = ca_guid_};
  set_private_data(rep, private_data);
  if (connection.offer_ != kNoCapabilities) {
    CapabilityBlock{.bits = connection.agreed_}.emit(rep.private_data);
  }
  connection.request_ = send(connection.path_, connection.transaction_id_, rep);
  connection.retries_left_ = connection.max_retries_;
  timers_.arm(connection.timer_, now_ns_ + connection.answer_timeout_ns_);
}

Expected<void> ConnectionManager::reject(Connection& connection,
                                         std::span<const std::uint8_t> private_data,
                                         RejectReason reason) {
  if (connection.state_ != State::req_rcvd) {
    return fail(ErrorCode::invalid_state, "the connection waits for no answer: it is in {}",
                to_string(connection.state_));
  }
  ROCKHOPPER_TRY(check_private_data<wire::cm::Rej>(private_data));
  wire::cm::Rej rej{.local_communication_id = connection.local_id_,
                    .remote_communication_id = connection.remote_id_,
                    .about = AboutMessage::req,
                    .reason = reason};
  set_private_data(rej, private_data);
  stop_waiting(connection);
  close(connection, send_reject(connection.path_, connection.transaction_id_, rej));
  return {};
}

void ConnectionManager::on_rtu(const ReceivedMad& mad, const wire::cm::Rtu& rtu) {
  Connection* connection = find(mad, rtu.remote_communication_id, rtu.local_communication_id);
  if (connection == nullptr) return;
  if (connection->state_ == State::established && !connection->active_) {
    counters_.duplicate_messages.add();
    return;
  }
  if (connection->state_ != State::rep_sent) {
    counters_.unexpected_messages.add();
    return;
  }
  timers_.cancel(connection->timer_);
  connection->state_ = State::established;
  counters_.established.add();
  tell({.type = EventType::established,
        .connection = connection,
        .private_data = PrivateData(rtu.private_data)});
}

}  // namespace rockhopper::roce::cm
