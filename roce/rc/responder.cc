// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/rc/responder.h"

#include <cassert>

#include "roce/rc/duplicate.h"
#include "roce/rc/execution.h"
#include "roce/rc/lock_execution.h"
#include "roce/rc/plain_reply_sender.h"
#include "roce/rc/reply_sender.h"
#include "roce/segmentation.h"

namespace rockhopper::roce::rc {

using wire::NakCode;

Responder::Responder(const TransportContext& qp) : qp_(qp) {
  if (qp_.executes_locks()) scope_ = make_scope();
}

Responder::~Responder() { forget(); }

std::unique_ptr<TargetScope> Responder::make_scope() {
  return std::make_unique<TargetScope>(
      *qp_.engine().locks(),
      [](void* self, wire::LockCause cause, std::uint64_t) {
        LockExecution(*static_cast<Responder*>(self)).decide(cause);
      },
      [](void* self, std::uint64_t now_ns) {
        LockExecution(*static_cast<Responder*>(self)).on_timer(now_ns);
      },
      this);
}

void Responder::reset(wire::Psn first_psn) {
  forget();
  expected_psn_ = first_psn;
  msn_ = 0;
  message_ = {};
  owed_.reset(first_psn);
}

void Responder::stop() {
  if (HeldPackets* held = held_requests(); held != nullptr) held->clear();
  abort_scope();
}

/// Lets go of what an earlier connection has left.
void Responder::forget() {
  abort_scope();
  while (!resources_.empty()) {
    drop_oldest_resource();
  }
}

void Responder::abort_scope() {
  if (scope_ != nullptr) scope_->abort();
}

void Responder::set_resources(std::uint8_t max_dest_rd_atomic) {
  if (resources_.limit() != max_dest_rd_atomic) {
    forget();
    resources_.set_limit(max_dest_rd_atomic);
  }
}

void Responder::on_request(const RxPacket& packet) {
  if (!qp_.repeats_selectively()) [[likely]] {
    take(packet);
    return;
  }
  const wire::Psn turn = received_psn();
  take(packet);
  take_held(turn);
}

/// A packet behind the expected one, by half of all PSNs or more, has been here before (IBTA vol.
/// 1, 9.7.4.1.2).
inline void Responder::take(const RxPacket& packet) {
  assert(stalls() || received_psn() == expected_psn_);
  const std::int32_t ahead = wire::distance(received_psn(), packet.headers.bth.psn);
  if (ahead > 0) [[unlikely]] {
    on_early(packet, static_cast<std::uint32_t>(ahead));
    return;
  }
  if (ahead < 0) [[unlikely]] {
    if (stalls() && wire::distance(expected_psn_, packet.headers.bth.psn) >= 0) {
      LockExecution(*this).on_parked_again(packet);
    } else {
      Duplicate::take(*this, packet);
    }
    return;
  }
  owed_.on_expected(packet.headers.bth.psn);
  if (stalls()) [[unlikely]] {
    LockExecution(*this).park(packet);
    return;
  }
  Execution::take(*this, packet);
}

/// The packet is `distance` PSNs ahead of the expected one.
void Responder::on_early(const RxPacket& packet, std::uint32_t distance) {
  if (qp_.repeats_selectively() && hold(packet, distance)) return;
  if (owed_.is_rnr_outstanding()) {
    drop(DropReason::rnr_dropped_request, packet);
    return;
  }
  drop(DropReason::out_of_seq_request, packet);
  qp_.engine().counters().out_of_seq_request.add();
  owed_.on_dropped(packet.headers.bth.psn);
  if (!owed_.is_nak_outstanding()) ask_for_missing();
}

HeldPackets* Responder::held_requests() const {
  return qp_.repeats_selectively() ? &qp_.selective_repeat()->requests() : nullptr;
}

bool Responder::is_holding() const {
  const HeldPackets* held = held_requests();
  return held != nullptr && !held->empty();
}

/// Holds the packet, `distance` PSNs ahead of the expected one, until its turn, and tells the peer
/// of it (selective repeat, docs/loss-recovery.md). Returns false if it is not held.
bool Responder::hold(const RxPacket& packet, std::uint32_t distance) {
  HeldPackets* held = held_requests();
  // A packet with a reserved opcode is refused in its turn, so it is not held until then.
  if (held == nullptr || packet.headers.opcode->operation == wire::Operation::reserved) {
    return false;
  }
  EngineCounters& counters = qp_.engine().counters();
  switch (held->hold(packet, distance)) {
    case HeldPackets::Result::held:
      counters.out_of_seq_request.add();
      counters.held_requests.add();
      break;
    case HeldPackets::Result::duplicate:
      counters.duplicate_request.add();
      drop(DropReason::duplicate_request, packet);
      break;
    case HeldPackets::Result::no_room:
      counters.held_pkts_no_room.add();
      return false;
  }
  acknowledge(Reply::repeated_ack);
  return true;
}

/// Takes what was held behind the packet that has just come, when `turn` was expected.
void Responder::take_held(wire::Psn turn) {
  HeldPackets* held = held_requests();
  while (held != nullptr && !held->empty() && received_psn() != turn) {
    if (received_psn() != turn + 1) {
      held->discard_before(received_psn());  // a READ has taken more than one
    }
    turn = received_psn();
    if (!held->deliver(received_psn(), [this](const RxPacket& packet) { take(packet); })) return;
  }
}

void Responder::perform(const AtomicOperation& operation, std::byte* word) {
  Resource resource{.first_psn = expected_psn_,
                    .psn_count = 1,
                    .msn = next_msn(),
                    .kind = Kind::atomic,
                    .va = operation.va()};
  resource.original = operation.perform(word);
  note_write(word, sizeof(std::uint64_t));
  qp_.engine().counters().rx_atomic_requests.add();
  finish_with(resource);
}

void Responder::tell_waiters(const std::byte* data, std::uint64_t length) const {
  qp_.engine().locks()->table.note_write(data, length);
}

/// A NAK that ends the connection: the queue pair goes to ERR, the NAK still leaves.
void Responder::refuse(NakCode code, const RxPacket& packet) {
  drop(DropReason::refused_request, packet);
  qp_.engine().counters().send_nak.add();
  owed_.refuse(code);
  qp_.trace(TraceEvent::nak_sent, owed_.nak_syndrome(),
            static_cast<wire::Psn>(expected_psn_).value);
  qp_.engine().raise({.type = code == NakCode::remote_access_error ? AsyncEventType::qp_access_err
                                                                   : AsyncEventType::qp_req_err,
                      .qp_num = qp_.number()});
  qp_.enter_error();
  qp_.schedule();
}

/// An RNR NAK: the request is to come again.
void Responder::refuse_for_now(const RxPacket& packet) {
  drop(DropReason::refused_request, packet);
  qp_.engine().counters().send_rnr_err.add();
  owed_.refuse_for_now(qp_.attributes().min_rnr_timer);
  qp_.trace(TraceEvent::nak_sent, owed_.nak_syndrome(),
            static_cast<wire::Psn>(expected_psn_).value);
  qp_.schedule();
}

void Responder::drop(DropReason reason, const RxPacket& packet) const {
  qp_.engine().count_drop(reason, packet.payload.packet);
}

/// The ACK leaves with the next burst; one covers all that is executed by then.
void Responder::acknowledge(Reply kind) {
  if (owed_.owes_ack()) qp_.engine().counters().ack_deferred.add();
  owed_.acknowledge(kind);
  qp_.schedule();
}

/// A NAK for the next packet, behind which some were dropped.
void Responder::ask_for_missing() {
  owed_.ask_for_missing();
  qp_.engine().counters().send_seq_err.add();
  qp_.trace(TraceEvent::nak_sent, owed_.nak_syndrome(), received_psn().value);
  qp_.schedule();
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

bool Responder::has_replies() const {
  return has_responses() || !owed_.empty() || (scope_ != nullptr && scope_->owes_sign());
}

TransmitResult Responder::transmit(rte_mbuf** packets, std::uint16_t count) {
  owed_.begin_turn();
  TransmitResult result = PlainReplySender(*this).run(packets, count);
  if (result.count < count) {
    result.add(ReplySender(*this).run(packets + result.count,
                                      static_cast<std::uint16_t>(count - result.count)));
  }
  return result;
}

void Responder::on_unreachable() {
  resources_.forgive();
  owed_.forgive();
}

}  // namespace rockhopper::roce::rc
