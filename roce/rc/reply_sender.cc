// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/rc/reply_sender.h"

#include <algorithm>
#include <cstddef>

#include "roce/rc/reply_packet.h"

namespace rockhopper::roce::rc {

TransmitResult Responder::ReplySender::run(rte_mbuf** packets, std::uint16_t count) {
  TransmitResult result;
  while (result.count < count && responder_.has_replies()) {
    rte_mbuf* packet = send_next();
    if (packet == nullptr) {
      if (responder_.has_replies()) {
        qp_.engine().counters().tx_no_mbuf.add();
        result.out_of_mbufs = true;
      }
      break;
    }
    result.add(packets, packet, qp_.flow());
  }
  return result;
}

inline rte_mbuf* Responder::ReplySender::send_next() {
  ResponderResources& resources = responder_.resources_;
  while (resources.owes() && is_stale_repetition(resources.owing())) {
    resources.skip();
  }
  if (resources.owes()) return send_response();
  if (responder_.scope_ != nullptr && responder_.scope_->owes_sign()) return send_sign_of_life();
  return responder_.owed_.owes_nak() ? send_nak() : send_ack();
}

inline rte_mbuf* Responder::ReplySender::send_response() {
  ResponderResources& resources = responder_.resources_;
  rte_mbuf* packet = build_response(resources.owing());
  if (packet == nullptr || !resources.owes()) {
    // The latter is a NAK in place of the response. The queue pair is in the error state now.
    return packet;
  }
  const Resource& answered = resources.on_sent();
  responder_.owed_.on_acknowledged(answered.first_psn + (answered.next - 1));
  if (answered.snapshot.exists() && !answered.owes()) {
    qp_.engine().locks()->snapshots.set_answered(answered.snapshot);
  }
  return packet;
}

rte_mbuf* Responder::ReplySender::send_sign_of_life() {
  rte_mbuf* packet = ReplyPacket(responder_).sign_of_life(responder_.scope_->sign());
  if (packet != nullptr) responder_.scope_->on_sign_sent();
  return packet;
}

rte_mbuf* Responder::ReplySender::send_nak() {
  OwedReplies& owed = responder_.owed_;
  rte_mbuf* packet = ReplyPacket(responder_)
                         .acknowledge(responder_.received_psn(),
                                      {.syndrome = owed.nak_syndrome(), .msn = responder_.msn_});
  if (packet != nullptr) owed.on_sent(responder_.is_holding());
  return packet;
}

inline rte_mbuf* Responder::ReplySender::send_ack() {
  OwedReplies& owed = responder_.owed_;
  const wire::Psn acknowledged = acknowledged_psn();
  if (owed.is_needless(acknowledged)) owed.drop_ack();
  if (owed.empty()) return nullptr;
  const ReplyPacket reply(responder_);
  const wire::Aeth aeth{.syndrome = reply.ack_syndrome(), .msn = responder_.msn_};
  const bool selective = responder_.is_holding();
  rte_mbuf* packet = selective ? reply.selective_acknowledge(aeth, *responder_.held_requests())
                               : reply.acknowledge(acknowledged, aeth);
  if (packet != nullptr) {
    EngineCounters& counters = qp_.engine().counters();
    (selective ? counters.send_selective_ack : counters.send_ack).add();
    owed.on_credits_told(aeth.syndrome == wire::Aeth::ack(0, 0).syndrome);
    owed.on_acknowledged(acknowledged);
    owed.on_sent(false);
  }
  return packet;
}

/// Returns what an ACK covers: everything executed, but not READs and atomics at its end, which
/// only their responses acknowledge. A requester that lost such a response and sees an ACK of the
/// very same PSN should ask for the response again; Linux rxe 6.1 completes the request without its
/// data instead.
inline wire::Psn Responder::ReplySender::acknowledged_psn() const {
  return responder_.resources_.before_responses(responder_.expected_psn_ - 1);
}

/// It is a late copy of a READ that was answered when its region still existed. The requester has
/// its data and the application may have gone on: this is no access error.
bool Responder::ReplySender::is_stale_repetition(const Resource& owing) const {
  if (owing.kind != Kind::read || owing.length == 0 || owing.next >= owing.sent) return false;
  if (owing.snapshot.exists()) {
    return qp_.engine().locks()->snapshots.at(owing.snapshot, 0) == nullptr;
  }
  return qp_.remote_access(owing.pd, MemoryKey{owing.rkey}, owing.va, owing.length,
                           kAccessRemoteRead)
             .status != MemoryStatus::ok;
}

inline rte_mbuf* Responder::ReplySender::build_response(const Resource& owing) {
  switch (owing.kind) {
    case Kind::read:
      return build_read_response(owing);
    case Kind::atomic:
      return ReplyPacket(responder_).atomic_acknowledge(owing);
    case Kind::lock:
      return ReplyPacket(responder_).lock_response(owing);
  }
  return nullptr;
}

inline rte_mbuf* Responder::ReplySender::build_read_response(const Resource& owing) {
  const std::uint32_t mtu = bytes(qp_.attributes().path_mtu);
  const std::uint64_t offset = std::uint64_t{owing.next} * mtu;
  const auto length =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(mtu, owing.length - offset));
  MemoryAccess source{MemoryStatus::ok, nullptr};
  if (owing.snapshot.exists()) [[unlikely]] {
    source.data = const_cast<std::byte*>(
        qp_.engine().locks()->snapshots.at(owing.snapshot, static_cast<std::uint32_t>(offset)));
  } else if (length > 0) {
    source = qp_.remote_access(owing.pd, MemoryKey{owing.rkey}, owing.va + offset, length,
                               kAccessRemoteRead);
  }
  if (source.status != MemoryStatus::ok) return refuse_read(owing);
  return ReplyPacket(responder_).read_response(owing, source.data, length);
}

/// The region went away while its READ was being answered: a NAK takes the place of the response.
/// Requests behind the READ may have been executed, but an MSN counts up to the PSN beside it.
rte_mbuf* Responder::ReplySender::refuse_read(const Resource& owing) {
  rte_mbuf* packet = ReplyPacket(responder_)
                         .acknowledge(owing.first_psn + owing.next,
                                      wire::Aeth::nak(wire::NakCode::remote_access_error,
                                                      (owing.msn - 1) & wire::kMask24));
  if (packet != nullptr) {
    qp_.engine().counters().send_nak.add();
    responder_.on_unreachable();
    qp_.engine().raise({.type = AsyncEventType::qp_access_err, .qp_num = qp_.number()});
    qp_.enter_error();
  }
  return packet;
}

}  // namespace rockhopper::roce::rc
