// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Answers: READ responses, atomic acknowledgements, ACKs and NAKs.
#include <algorithm>

#include "roce/engine.h"
#include "roce/packet_builder.h"
#include "roce/rc/responder.h"

namespace rockhopper::roce::rc {

using wire::NakCode;
using wire::Opcode;

Responder::Responder(QueuePair& qp) : qp_(qp) {
  if (qp.init_.lock_execution) {
    scope_ = make_scope();
  }
}

Responder::~Responder() {
  forget();
  if (scope_ != nullptr) {
    qp_.engine_.locks_->remove_queue_pair();
  }
}

/// What an earlier connection has left.
void Responder::forget() {
  abort_scope();
  while (!resources_.empty()) {
    drop_oldest_resource();
  }
}

void Responder::reset(wire::Psn first_psn) {
  forget();
  expected_psn_ = first_psn;
  msn_ = 0;
  message_ = {};
  owed_.reset(first_psn);
}

void Responder::set_resources(std::uint8_t max_dest_rd_atomic) {
  if (resources_.limit() != max_dest_rd_atomic) {
    forget();
    resources_.set_limit(max_dest_rd_atomic);
  }
}

bool Responder::has_replies() const {
  return has_responses() || !owed_.empty() || (scope_ != nullptr && scope_->sign_owed);
}

TransmitResult Responder::transmit(rte_mbuf** packets, std::uint16_t count) {
  TransmitResult result;
  owed_.begin_turn();
  while (result.count < count && has_replies()) {
    rte_mbuf* packet = next_reply();
    if (packet == nullptr) {
      if (has_replies()) {
        qp_.engine_.counters_.tx_no_mbuf.add();
        result.out_of_mbufs = true;
      }
      break;
    }
    result.add(packets, packet, qp_.flow_);
  }
  return result;
}

rte_mbuf* Responder::next_reply() {
  while (resources_.owes()) {
    Resource& owing = resources_.owing();
    if (is_stale_repetition(owing)) {
      resources_.skip();
      continue;
    }
    rte_mbuf* packet = build_response(owing);
    if (packet == nullptr) {
      return nullptr;
    }
    if (!resources_.owes()) {
      // This is a NAK in place of the response. The queue pair is in the error state now.
      return packet;
    }
    const Resource& answered = resources_.on_sent();
    owed_.on_acknowledged(answered.first_psn + (answered.next - 1));
    if (answered.snapshot.exists() && !answered.owes()) {
      qp_.engine_.locks_->snapshots.set_answered(answered.snapshot);
    }
    return packet;
  }
  if (scope_ != nullptr && scope_->sign_owed) {
    rte_mbuf* packet = build_sign_of_life();
    if (packet != nullptr) {
      scope_->sign_owed = false;
    }
    return packet;
  }
  if (owed_.is_needless(acknowledged_psn())) {
    owed_.drop_ack();
  }
  if (owed_.empty()) {
    return nullptr;
  }
  rte_mbuf* packet = build_reply();
  if (packet != nullptr) {
    owed_.on_sent(owed_.owes_nak() && is_holding());
  }
  return packet;
}

/// The pending ACK or NAK.
rte_mbuf* Responder::build_reply() {
  if (owed_.owes_nak()) {
    return build_acknowledge(received_psn(), owed_.nak_syndrome(), msn_);
  }
  EngineCounters& counters = qp_.engine_.counters_;
  const bool selective = is_holding();
  rte_mbuf* packet = selective ? build_selective_acknowledge(*held_requests())
                               : build_acknowledge(acknowledged_psn(), ack_syndrome(), msn_);
  if (packet != nullptr) {
    (selective ? counters.send_selective_ack : counters.send_ack).add();
    owed_.on_credits_told(ack_syndrome() == wire::Aeth::ack(0, 0).syndrome);
    owed_.on_acknowledged(acknowledged_psn());
  }
  return packet;
}

/// What an ACK covers: everything executed, but not READs and atomics at its end, which only their
/// responses acknowledge. A requester that lost such a response and sees an ACK of the very same
/// PSN should ask for the response again; Linux rxe 6.1 completes the request without its data
/// instead.
wire::Psn Responder::acknowledged_psn() { return resources_.before_responses(expected_psn_ - 1); }

/// A late copy of a READ that was answered when its region still existed. The requester has its
/// data and the application may have gone on: this is no access error.
bool Responder::is_stale_repetition(const Resource& owing) const {
  if (owing.kind != Kind::read || owing.length == 0 || owing.next >= owing.sent) {
    return false;
  }
  if (owing.snapshot.exists()) {
    return qp_.engine_.locks_->snapshots.at(owing.snapshot, 0) == nullptr;
  }
  return qp_.remote_access(owing.pd, MemoryKey{owing.rkey}, owing.va, owing.length,
                           kAccessRemoteRead)
             .status != MemoryStatus::ok;
}

void Responder::on_unreachable() {
  resources_.forgive();
  owed_.forgive();
}

/// The ACK leaves with the next burst; one covers all that is executed by then.
void Responder::acknowledge(Reply kind) {
  if (owed_.owes_ack()) {
    qp_.engine_.counters_.ack_deferred.add();
  }
  owed_.acknowledge(kind);
  qp_.engine_.schedule(qp_);
}

/// A NAK that ends the connection: the queue pair goes to ERR, the NAK still leaves.
void Responder::refuse(NakCode code, const RxPacket& packet) {
  drop(DropReason::refused_request, packet);
  qp_.engine_.counters_.send_nak.add();
  owed_.refuse(code);
  qp_.trace(TraceEvent::nak_sent, owed_.nak_syndrome(), expected_psn_.value);
  qp_.engine_.raise({.type = code == NakCode::remote_access_error ? AsyncEventType::qp_access_err
                                                                  : AsyncEventType::qp_req_err,
                     .qp_num = qp_.number()});
  qp_.enter_error();
  qp_.engine_.schedule(qp_);
}

void Responder::rnr_nak(const RxPacket& packet) {
  drop(DropReason::refused_request, packet);
  qp_.engine_.counters_.send_rnr_err.add();
  owed_.refuse_for_now(qp_.attributes_.min_rnr_timer);
  qp_.trace(TraceEvent::nak_sent, owed_.nak_syndrome(), expected_psn_.value);
  qp_.engine_.schedule(qp_);
}

/// A peer that was told "no credits" learns of new ones at once (IBTA vol. 1, 9.7.7.2.4:
/// unsolicited acknowledge), but not where the last answer was a response: the ACK would be older.
/// The peer may send one packet without credits, and its ACK brings them.
void Responder::on_receive_posted() {
  if (owed_.is_out_of_credits()) {
    owed_.on_credits_told(false);
    acknowledge();
  }
}

rte_mbuf* Responder::build_response(Resource& owing) {
  switch (owing.kind) {
    case Kind::read:
      return build_read_response(owing);
    case Kind::atomic:
      return build_atomic_acknowledge(owing);
    case Kind::lock:
      return build_lock_response(owing);
  }
  return nullptr;
}

rte_mbuf* Responder::build_atomic_acknowledge(const Resource& owing) {
  wire::Headers headers = reply_headers(Opcode::rc_atomic_acknowledge, owing.first_psn);
  headers.aeth = {.syndrome = ack_syndrome(), .msn = owing.msn};
  headers.atomic_ack_eth.original = owing.original;
  PacketBuilder builder = qp_.start_packet(headers, 0);
  return builder.ok() ? builder.finish() : nullptr;
}

rte_mbuf* Responder::build_read_response(Resource& owing) {
  const std::uint32_t mtu = bytes(qp_.attributes_.path_mtu);
  const std::uint32_t index = owing.next;
  const std::uint64_t offset = std::uint64_t{index} * mtu;
  const auto length =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(mtu, owing.length - offset));
  const bool last = index + 1 == owing.psn_count;
  Opcode opcode = last ? Opcode::rc_rdma_read_response_last : Opcode::rc_rdma_read_response_middle;
  if (index == owing.start) {
    opcode = last ? Opcode::rc_rdma_read_response_only : Opcode::rc_rdma_read_response_first;
  }
  MemoryAccess source{MemoryStatus::ok, nullptr};
  const std::byte* data = nullptr;
  if (owing.snapshot.exists()) [[unlikely]] {
    data = qp_.engine_.locks_->snapshots.at(owing.snapshot, static_cast<std::uint32_t>(offset));
  } else if (length > 0) {
    source = qp_.remote_access(owing.pd, MemoryKey{owing.rkey}, owing.va + offset, length,
                               kAccessRemoteRead);
    data = source.data;
  }
  if (source.status != MemoryStatus::ok) {
    return refuse_read(owing);
  }
  wire::Headers headers = reply_headers(opcode, owing.first_psn + index);
  headers.aeth = {.syndrome = ack_syndrome(), .msn = owing.msn};
  PacketBuilder builder = qp_.start_packet(headers, length);
  if (!builder.ok() || (length > 0 && !builder.append(data, length))) {
    return nullptr;
  }
  return builder.finish();
}

/// The region went away while its READ was being answered: a NAK takes the place of the response.
/// Requests behind the READ may have been executed, but an MSN counts up to the PSN beside it.
rte_mbuf* Responder::refuse_read(const Resource& owing) {
  rte_mbuf* packet = build_acknowledge(owing.first_psn + owing.next,
                                       wire::Aeth::nak(NakCode::remote_access_error, 0).syndrome,
                                       (owing.msn - 1) & wire::kMask24);
  if (packet != nullptr) {
    qp_.engine_.counters_.send_nak.add();
    on_unreachable();
    qp_.engine_.raise({.type = AsyncEventType::qp_access_err, .qp_num = qp_.number()});
    qp_.enter_error();
  }
  return packet;
}

rte_mbuf* Responder::build_acknowledge(wire::Psn psn, std::uint8_t syndrome, std::uint32_t msn) {
  wire::Headers headers = reply_headers(Opcode::rc_acknowledge, psn);
  headers.aeth = {.syndrome = syndrome, .msn = msn};
  PacketBuilder builder = qp_.start_packet(headers, 0);
  return builder.ok() ? builder.finish() : nullptr;
}

wire::Headers Responder::reply_headers(Opcode opcode, wire::Psn psn) const {
  wire::Headers headers;
  headers.bth.opcode = static_cast<std::uint8_t>(qp_.service_opcode(opcode));
  headers.bth.mig_req = true;
  headers.bth.destination = qp_.attributes_.dest_qp_num;
  headers.bth.psn = psn;
  return headers;
}

/// Credits count from the MSN on, so a SEND in progress still counts its receive request. Nobody
/// can promise receive requests that others may take.
std::uint8_t Responder::ack_syndrome() const {
  if (qp_.srq_ != nullptr) {
    return wire::Aeth::ack(wire::kCreditCodeUnlimited, 0).syndrome;
  }
  const auto receives = static_cast<std::uint32_t>(qp_.recv_queue_.size());
  return wire::Aeth::ack(wire::credit_code(receives), 0).syndrome;
}

}  // namespace rockhopper::roce::rc
