// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "dc/targets.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "dc/cnak_queue.h"
#include "dc/endpoint_context.h"
#include "dc/session_prefix.h"
#include "roce/rc/requester.h"
#include "roce/wire/cm.h"
#include "roce/wire/pkey.h"
#include "stack/time_units.h"

namespace rockhopper::dc {

using roce::DropReason;

namespace {

/// Returns the DCSH of what leaves with the connect and before its ACCEPT.
wire::Dcsh half_dcsh(const Connect& message) {
  return {.form = 0,
          .stream = message.stream,
          .source = message.initiator,
          .value = wire::Dcsh::from_nonce(message.nonce)};
}

}  // namespace

Targets::Targets(EndpointContext& endpoint, const SessionTable::Config& config)
    : endpoint_(endpoint),
      table_(config, endpoint.random()),
      context_count_(config.contexts),
      lease_timer_(
          [](void* self, std::uint64_t now_ns) {
            static_cast<Targets*>(self)->on_lease_timer(now_ns);
          },
          this) {}

Targets::~Targets() {
  for (; !contexts_.empty(); contexts_.pop_back()) {
    endpoint_.extension.destroy_qp(contexts_.back().qp);
  }
}

Expected<void> Targets::make_contexts() {
  contexts_.reserve(context_count_);
  while (contexts_.size() < context_count_) {
    roce::QpInit init;
    init.qp_type = roce::QpType::extension_responder;
    // It sends no requests, and receives into the target's SRQ.
    init.max_send_wr = 1;
    init.max_recv_wr = 0;
    init.max_inline_data = 0;
    init.lock_execution = endpoint_.config.lock_execution;
    Responder* responder = nullptr;
    SessionPrefix* prefix = nullptr;
    const auto make_transport = [&](roce::ExtensionQp& made) {
      auto own = std::make_unique<Responder>(made, endpoint_);
      auto own_prefix = std::make_unique<SessionPrefix>();
      responder = own.get();
      prefix = own_prefix.get();
      return roce::Transport{.requester = std::make_unique<roce::rc::Requester>(made),
                             .responder = std::move(own),
                             .prefix = std::move(own_prefix)};
    };
    ROCKHOPPER_TRY(auto qp, endpoint_.extension.create_qp({}, init, make_transport));
    contexts_.push_back({.qp = qp, .responder = responder, .prefix = prefix});
  }
  return {};
}

std::optional<DropReason> Targets::on_connect(const Connect& message, Dct* dct,
                                              const stack::UdpDatagram& datagram,
                                              const roce::RxPacket& packet, std::uint64_t now_ns) {
  if (dct == nullptr) {
    refuse(CnakReason::no_such_dct, message, datagram, packet, now_ns);
    return DropReason::unknown_qp;
  }
  if (!wire::pkeys_match(*endpoint_.engine.query_pkey(dct->init().pkey_index),
                         packet.headers.bth.pkey)) {
    return DropReason::bad_pkey;
  }
  if (message.access_key != dct->access_key()) {
    endpoint_.counters.access_key_violations.add();
    dct->note_violation();
    return DropReason::dc_access_key;  // DC-20: no answer
  }
  endpoint_.counters.rx_connect.add();
  const Peer peer{datagram.source, message.initiator, message.stream};
  if (Session* known = table_.find(peer); known != nullptr) {
    const bool same = message.incarnation == known->incarnation;
    const auto newer = static_cast<std::int32_t>(message.nonce - known->nonce);
    if ((same && newer < 0) || (!same && message.incarnation == known->previous_incarnation)) {
      endpoint_.counters.ghost_connects.add();
      return DropReason::dc_unknown_session;  // DC-28
    }
    if (same && newer == 0) {
      if (!known->open || known->target != dct->number()) {
        endpoint_.counters.ghost_connects.add();
        return refuse_stale(half_dcsh(message), datagram, packet, now_ns);
      }
      table_.touch(*known, now_ns);
      context(*known).responder->owe_accept();
      return std::nullopt;
    }
    if (known->open) {
      endpoint_.counters.sessions_superseded.add();
      close(*known, now_ns);
    }
  }
  if (dct->draining()) {
    refuse(CnakReason::draining, message, datagram, packet, now_ns);
    return std::nullopt;
  }
  const std::uint32_t mtu = wire::cm::mtu_bytes(message.mtu_code);
  if (mtu > bytes(dct->init().path_mtu) || mtu > endpoint_.max_path_mtu()) {
    refuse(CnakReason::incompatible, message, datagram, packet, now_ns);
    return std::nullopt;
  }
  if (make_room(peer, message, datagram, packet, now_ns)) {
    open(peer, message, *dct, datagram, now_ns);
  }
  return std::nullopt;
}

std::optional<DropReason> Targets::on_connect_data(const Connect& message, Dct* dct,
                                                   const stack::UdpDatagram& datagram,
                                                   const roce::RxPacket& packet,
                                                   std::uint64_t now_ns) {
  if (const auto refusal = on_connect(message, dct, datagram, packet, now_ns)) return refusal;
  endpoint_.counters.rx_connect_data.add();
  Session* session = find_open(datagram, half_dcsh(message), packet.headers.bth.destination);
  if (session == nullptr) {
    return std::nullopt;  // a CNAK says why
  }
  return endpoint_.extension.deliver(*context(*session).qp, datagram, packet, now_ns);
}

/// Ends a session so that there is a free context: the one that has been idle longest (DC-31), else
/// one of those whose peers have had a context for long, so that others get their turn (DC-33).
void Targets::evict_one(std::uint64_t now_ns) {
  Session* evicted = table_.oldest();
  if (evicted == nullptr || evicted->touched_ns + endpoint_.config.idle_ns > now_ns ||
      context(*evicted).responder->has_replies()) {
    evicted = table_.find_next_held_too_long(
        now_ns, [this](const Session& session) { return context(session).responder->quiet(); });
    if (evicted == nullptr) return;
    evicted->held_since_ns = 0;
  }
  endpoint_.counters.sessions_evicted.add();
  close(*evicted, now_ns);
}

/// Makes sure that a session can be opened. Returns false if none can be, and the peer has been
/// refused.
bool Targets::make_room(const Peer& peer, const Connect& message,
                        const stack::UdpDatagram& datagram, const roce::RxPacket& packet,
                        std::uint64_t now_ns) {
  if (table_.is_over_quota(peer)) {
    refuse(CnakReason::quota, message, datagram, packet, now_ns);
    return false;
  }
  table_.forget(now_ns);
  if (!table_.has_room(peer)) evict_one(now_ns);
  if (!table_.has_room(peer)) {
    refuse(CnakReason::no_context, message, datagram, packet, now_ns);
    return false;
  }
  return true;
}

void Targets::open(const Peer& peer, const Connect& message, Dct& dct,
                   const stack::UdpDatagram& datagram, std::uint64_t now_ns) {
  Session& session = table_.open(peer, message.incarnation, message.nonce, dct.number(), now_ns);
  dct.count_sessions(1);
  const Context& opened = context(session);
  const DctInit& init = dct.init();
  opened.qp->assign(dct.number(), init.pd, init.srq, init.recv_cq);
  roce::QpAttributes attributes;
  attributes.path_mtu = static_cast<roce::PathMtu>(wire::cm::mtu_bytes(message.mtu_code));
  attributes.rq_psn = message.first_psn;
  attributes.dest_qp_num = message.initiator;
  attributes.qp_access_flags = init.access_flags;
  attributes.ah_attr = {.source = datagram.destination,
                        .destination = datagram.source,
                        .traffic_class = init.traffic_class,
                        .hop_limit = init.hop_limit};
  attributes.pkey_index = init.pkey_index;
  attributes.max_dest_rd_atomic = endpoint_.config.responder_resources;
  attributes.min_rnr_timer = init.min_rnr_timer;
  opened.qp->start(attributes);
  opened.prefix->set_session(
      {.form = 1, .stream = peer.stream, .source = dct.number(), .value = session.id});
  opened.responder->serve(&session);
  opened.responder->owe_accept();
  endpoint_.counters.sessions_opened.add();
  watch_leases();
}

void Targets::close(Session& session, std::uint64_t now_ns) {
  Context& closed = context(session);
  const wire::Psn next_psn = closed.responder->expected_psn();
  if (Dct* dct = endpoint_.numbers.find_dct(session.target); dct != nullptr) {
    dct->count_sessions(-1);
  }
  closed.responder->serve(nullptr);
  // Through ERR: the receive request of a message that is not whole completes.
  (void)closed.qp->modify({.qp_state = roce::QpState::err}, roce::kQpState);
  (void)closed.qp->modify({.qp_state = roce::QpState::reset}, roce::kQpState);
  closed.qp->assign({}, {}, nullptr, nullptr);
  table_.close(session, next_psn, now_ns);
  endpoint_.counters.sessions_closed.add();
}

void Targets::on_failed(Session& session) { close(session, endpoint_.extension.now_ns()); }

void Targets::close_all(const Dct& dct) {
  table_.for_each_open([&](Session& session) {
    if (session.target == dct.number()) close(session, endpoint_.extension.now_ns());
  });
}

std::optional<DropReason> Targets::on_disconnect(const Disconnect& message,
                                                 const stack::UdpDatagram& datagram,
                                                 std::uint64_t now_ns) {
  Session* session = table_.find(message.session_id);
  if (session == nullptr || session->peer.address != datagram.source) {
    return DropReason::dc_unknown_session;
  }
  endpoint_.counters.rx_disconnect.add();
  close(*session, now_ns);
  return std::nullopt;
}

std::optional<DropReason> Targets::on_keepalive(const KeepAlive& message,
                                                const stack::UdpDatagram& datagram,
                                                std::uint64_t now_ns) {
  Session* session = table_.find(message.session_id);
  if (session == nullptr || session->peer.address != datagram.source) {
    return DropReason::dc_unknown_session;  // its requests will find out
  }
  endpoint_.counters.rx_keepalive.add();
  table_.touch(*session, now_ns);
  context(*session).responder->owe_keepalive();
  return std::nullopt;
}

/// The session that a request belongs to; null if it is none that is open.
Session* Targets::find_open(const stack::UdpDatagram& datagram, const wire::Dcsh& dcsh,
                            wire::Qpn target) {
  if (!dcsh.has_session()) {
    Session* session = table_.find(Peer{datagram.source, dcsh.source, dcsh.stream});
    return session != nullptr && session->open && session->nonce == dcsh.nonce() &&
                   session->target == target
               ? session
               : nullptr;
  }
  Session* session = table_.find(dcsh.value);
  if (session != nullptr && (session->target != target ||
                             session->peer != Peer{datagram.source, dcsh.source, dcsh.stream})) {
    return nullptr;  // another one's
  }
  return session;
}

std::optional<DropReason> Targets::on_request(const stack::UdpDatagram& datagram,
                                              const roce::RxPacket& packet, std::uint64_t now_ns) {
  Session* session = find_open(datagram, packet.headers.dcsh, packet.headers.bth.destination);
  if (session == nullptr) {
    endpoint_.counters.stale_requests.add();
    return refuse_stale(packet.headers.dcsh, datagram, packet, now_ns);
  }
  table_.touch(*session, now_ns);
  return endpoint_.extension.deliver(*context(*session).qp, datagram, packet, now_ns);
}

/// Tells the initiator that the session is not open, and what of it has been executed if that is
/// still known (DC-27, DC-29).
std::optional<DropReason> Targets::refuse_stale(const wire::Dcsh& dcsh,
                                                const stack::UdpDatagram& datagram,
                                                const roce::RxPacket& packet,
                                                std::uint64_t now_ns) {
  Cnak cnak{.reason = CnakReason::stale_session,
            .nonce = dcsh.has_session() ? 0 : dcsh.nonce(),
            .session_id = dcsh.has_session() ? dcsh.value : 0};
  const Session* known = table_.find(Peer{datagram.source, dcsh.source, dcsh.stream});
  if (known != nullptr && !known->open &&
      (dcsh.has_session() ? known->id == dcsh.value : known->nonce == dcsh.nonce())) {
    cnak.executed_known = true;
    cnak.expected_psn = known->final_psn;
  }
  endpoint_.cnaks->push(cnak, dcsh.source, datagram, packet, now_ns);
  return DropReason::dc_unknown_session;
}

void Targets::refuse(CnakReason reason, const Connect& message, const stack::UdpDatagram& datagram,
                     const roce::RxPacket& packet, std::uint64_t now_ns) {
  // A peer that had to leave would be back before those that have waited for long: it is to try
  // less often.
  const Session* known = table_.find(Peer{datagram.source, message.initiator, message.stream});
  const bool had_its_turn = known != nullptr && known->held_since_ns == 0;
  endpoint_.cnaks->push(
      {.reason = reason,
       .nonce = message.nonce,
       .backoff_us = had_its_turn ? table_.hold_us() : endpoint_.config.backoff_us},
      message.initiator, datagram, packet, now_ns);
}

void Targets::watch_leases() {
  if (const Session* oldest = table_.oldest(); oldest != nullptr && !lease_timer_.armed()) {
    endpoint_.extension.timers().arm(lease_timer_,
                                     oldest->touched_ns + endpoint_.config.lease_us * kNsPerUs);
  }
}

void Targets::on_lease_timer(std::uint64_t now_ns) {
  const std::uint64_t lease_ns = endpoint_.config.lease_us * kNsPerUs;
  for (Session* oldest = table_.oldest();
       oldest != nullptr && oldest->touched_ns + lease_ns <= now_ns; oldest = table_.oldest()) {
    endpoint_.counters.sessions_expired.add();
    close(*oldest, now_ns);
  }
  table_.forget(now_ns);
  watch_leases();
}

}  // namespace rockhopper::dc
