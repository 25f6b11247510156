// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/rc/answer.h"

#include <cstddef>
#include <cstring>

#include "roce/payload.h"
#include "roce/wire/timer_code.h"

namespace rockhopper::roce::rc {
namespace {

using wire::LockStatus;

WcStatus status_of(wire::NakCode code) {
  switch (code) {
    case wire::NakCode::invalid_request:
      return WcStatus::rem_inv_req_err;
    case wire::NakCode::remote_access_error:
      return WcStatus::rem_access_err;
    case wire::NakCode::remote_operational_error:
      return WcStatus::rem_op_err;
    case wire::NakCode::invalid_rd_request:
      return WcStatus::rem_inv_rd_req_err;
    case wire::NakCode::psn_sequence_error:
      break;
  }
  return WcStatus::bad_resp_err;
}

/// The answers that a lock request, or one of a scope, can have.
bool fits(const SendWqe& request, LockStatus status) {
  switch (request.opcode) {
    case WrOpcode::lock_acquire:
      return status == LockStatus::granted || status == LockStatus::failed;
    case WrOpcode::lock_release:
      return status == LockStatus::released || status == LockStatus::failed ||
             (status == LockStatus::flushed && request.in_scope());
    case WrOpcode::lock_cancel:
      return status == LockStatus::canceled || status == LockStatus::failed;
    default:
      return status == LockStatus::flushed && request.has_response() && request.in_scope();
  }
}

}  // namespace

void Requester::Answer::drop(DropReason reason) {
  qp_.engine().count_drop(reason, packet_.payload.packet);
}

/// The packet cannot be the answer to the front request.
void Requester::Answer::refuse() {
  drop(DropReason::bad_response);
  requester_.fail(WcStatus::bad_resp_err);
}

/// Takes an ACK, NAK or RNR NAK.
inline void Requester::Answer::on_acknowledge() {
  const std::uint32_t distance = ahead();
  if (distance >= requester_.window_.sent_ahead()) {
    // Also how a responder repeats itself after duplicates: it may still bring credits.
    if (aeth().kind() == wire::AethKind::ack && psn() == requester_.window_.unacked_psn() - 1) {
      take_credits();
      return;
    }
    drop(DropReason::ghost_acknowledge);
    return;
  }
  if (qp_.repeats_selectively()) [[unlikely]] {
    note_received(psn() + (aeth().kind() == wire::AethKind::ack ? 1 : 0));
  }
  switch (aeth().kind()) {
    case wire::AethKind::ack:
      qp_.engine().counters().rcvd_ack.add();
      take_credits();
      if (requester_.acknowledge(distance + 1, now_ns_) > 0) {
        requester_.on_implied_nak(ahead(), now_ns_);
      }
      break;
    case wire::AethKind::nak:
      if (requester_.acknowledge(distance, now_ns_) > 0) {
        if (qp_.send_queue().front().opcode == WrOpcode::lock_acquire) {
          // What is missing is behind an acquire that is not answered yet.
          requester_.retry_.on_received(ahead(), qp_.retry_cnt());
        }
        requester_.on_implied_nak(ahead(), now_ns_);
      } else if (!qp_.send_queue().empty()) {
        on_nak();
      }
      break;
    case wire::AethKind::rnr_nak:
      if (requester_.acknowledge(distance, now_ns_) > 0) {
        requester_.on_implied_nak(ahead(), now_ns_);
      } else if (!qp_.send_queue().empty()) {
        on_rnr_nak();
      }
      break;
    case wire::AethKind::reserved:
      drop(DropReason::bad_response);
      break;
  }
}

/// The oldest request is refused, or has to be sent again.
void Requester::Answer::on_nak() {
  EngineCounters& counters = qp_.engine().counters();
  if (aeth().nak_code() == wire::NakCode::psn_sequence_error) {
    counters.rcvd_seq_err.add();
    Retry& retry = requester_.retry_;
    // Packets behind one that drew an RNR NAK draw this from some responders: the wait covers it.
    if (!retry.is_loss_known() && !retry.is_rnr_wait() && requester_.use_retry()) {
      retry.note_known_loss();
      requester_.note_loss(false, now_ns_);
      requester_.go_back();
      requester_.restart_ack_timer(now_ns_);
    }
    return;
  }
  counters.rcvd_nak.add();
  requester_.fail(status_of(aeth().nak_code()));
}

/// The peer has no receive request for the oldest request.
void Requester::Answer::on_rnr_nak() {
  EngineCounters& counters = qp_.engine().counters();
  Retry& retry = requester_.retry_;
  counters.rcvd_rnr_err.add();
  if (retry.is_rnr_wait()) return;
  if (!retry.use_rnr_retry(qp_.attributes().rnr_retry)) {
    counters.retry_rnr_exceeded_err.add();
    requester_.fail(WcStatus::rnr_retry_exc_err);
    return;
  }
  // The peer may be busy for longer than losses are rare.
  retry.on_sign_of_life(qp_.retry_cnt());
  retry.forget_known_loss();
  requester_.go_back();
  retry.await_receiver(qp_.engine().timers(), now_ns_ + wire::rnr_timer_ns(aeth().timer()));
}

void Requester::Answer::take_credits() {
  if (qp_.obeys_credits() && requester_.credits_.take(aeth())) qp_.schedule();
}

/// Something is missing at the peer, which holds what has come behind it (docs/loss-recovery.md).
void Requester::Answer::on_selective_acknowledge() {
  const SendWindow& window = requester_.window_;
  const wire::Saeth& held = packet_.headers.saeth;
  const std::uint32_t distance = ahead();
  const std::uint32_t length = held.length();
  const std::uint32_t sent = window.sent_ahead();
  const bool never_sent = distance < sent && distance + length >= sent;
  if (aeth().kind() != wire::AethKind::ack || length == 0 || never_sent) {
    drop(DropReason::bad_selective_ack);
    return;
  }
  if (distance >= sent) {
    drop(DropReason::ghost_acknowledge);
    return;
  }
  qp_.engine().counters().rcvd_selective_ack.add();
  take_credits();
  note_received(psn());
  if (requester_.acknowledge(distance, now_ns_) > 0) requester_.on_implied_nak(ahead(), now_ns_);
  if (qp_.send_queue().empty() || window.sent_ahead() == 0) {
    return;  // that failed the queue pair
  }
  SelectiveRepeat& repeat = *qp_.selective_repeat();
  const bool going_over = window.is_going_over();
  if (repeat.on_selective_ack(psn(), held) && !requester_.retry_.is_rnr_wait() &&
      !(going_over && repeat.repeats_everything())) {
    requester_.note_loss(false, now_ns_);
    requester_.go_back(SelectiveRepeat::Reason::lost);
  }
}

/// What the answer says beside what it acknowledges: all requests before `psn` have arrived.
void Requester::Answer::note_received(wire::Psn psn) {
  if (requester_.window_.ahead(psn) <= requester_.window_.sent_ahead()) {
    qp_.selective_repeat()->on_received_before(psn);
  }
}

/// Returns the front request if the packet holds the next of its response PSNs, else null. A
/// response acknowledges the requests before its own.
SendWqe* Requester::Answer::await_response() {
  const std::uint32_t distance = ahead();
  if (distance >= requester_.window_.sent_ahead()) {
    drop(DropReason::duplicate_response);
    return nullptr;
  }
  if (qp_.repeats_selectively()) [[unlikely]] {
    note_received(psn());
  }
  if (requester_.acknowledge(distance, now_ns_) > 0) {
    const bool held = hold();
    if (!held) drop(DropReason::out_of_order_response);
    requester_.on_implied_nak(ahead(), now_ns_, held);
    return nullptr;
  }
  if (qp_.send_queue().empty() || requester_.window_.sent_ahead() == 0) {
    return nullptr;  // acknowledging failed the queue pair
  }
  return &qp_.send_queue().front();
}

/// It is a response behind a missing one. Returns false if it cannot be held until its turn.
bool Requester::Answer::hold() {
  if (!qp_.repeats_selectively()) return false;
  switch (qp_.selective_repeat()->responses().hold(packet_, ahead())) {
    case HeldPackets::Result::held:
      qp_.engine().counters().held_responses.add();
      return true;
    case HeldPackets::Result::duplicate:
      drop(DropReason::duplicate_response);
      return true;
    case HeldPackets::Result::no_room:
      qp_.engine().counters().held_pkts_no_room.add();
      break;
  }
  return false;
}

inline void Requester::Answer::on_read_response() {
  SendWqe* request = await_response();
  if (request == nullptr) return;
  const std::uint32_t mtu = bytes(qp_.attributes().path_mtu);
  const std::uint32_t index = requester_.window_.acknowledged_of(*request);
  const std::uint64_t offset = std::uint64_t{index} * mtu;
  const bool last = index + 1 == request->psn_count;
  std::uint64_t expected_length = last ? request->length - offset : mtu;
  if (request->is_placement()) expected_length = 0;
  // Whether a response is a first or a middle one depends on where the last retry started.
  if (!(request->is_read() || request->is_placement()) || packet_.headers.opcode->ends() != last ||
      packet_.payload.length != expected_length) {
    refuse();
    return;
  }
  const auto list = qp_.send_queue().sges(qp_.send_queue().head()).first(request->num_sge);
  if (scatter(qp_.engine().memory(), qp_.pd(), list, offset, packet_.payload) != MemoryStatus::ok) {
    requester_.fail(WcStatus::loc_prot_err);
    return;
  }
  if (packet_.headers.opcode->has(wire::Header::aeth)) take_credits();
  requester_.acknowledge_front(1, now_ns_);
  if (last) requester_.complete_front(WcStatus::success);
}

inline void Requester::Answer::on_atomic_acknowledge() {
  SendWqe* request = await_response();
  if (request == nullptr) return;
  if (!request->is_atomic()) {
    refuse();
    return;
  }
  const std::uint64_t original = packet_.headers.atomic_ack_eth.original;
  const auto* from = reinterpret_cast<const std::byte*>(&original);
  const auto list = qp_.send_queue().sges(qp_.send_queue().head()).first(request->num_sge);
  const MemoryStatus status =
      for_each_piece(qp_.engine().memory(), qp_.pd(), list, 0, sizeof original, kAccessLocalWrite,
                     [&from](std::byte* data, std::uint32_t length) {
                       std::memcpy(data, from, length);
                       from += length;
                       return true;
                     });
  if (status != MemoryStatus::ok) {
    requester_.fail(WcStatus::loc_prot_err);
    return;
  }
  take_credits();
  requester_.acknowledge_front(1, now_ns_);
  requester_.complete_front(WcStatus::success);
}

void Requester::Answer::on_lock_response() {
  const wire::Lkaeth& answer = packet_.headers.lkaeth;
  if (answer.status == LockStatus::waiting) {
    on_sign_of_life();
    return;
  }
  const SendWqe* request = await_response();
  if (request == nullptr) return;
  if (!fits(*request, answer.status) || requester_.window_.acknowledged_of(*request) != 0) {
    refuse();
    return;
  }
  WcStatus status = WcStatus::success;
  if (answer.status == LockStatus::failed) {
    status = WcStatus::lock_failed;
  } else if (answer.status == LockStatus::flushed) {
    status = WcStatus::lock_flushed;
  }
  if (request->opcode == WrOpcode::lock_acquire) {
    begin_scope();
  } else if (request->opcode == WrOpcode::lock_release && status == WcStatus::lock_failed) {
    requester_.scope_.lose(answer.cause);
  }
  requester_.acknowledge_front(request->psn_count, now_ns_);
  requester_.complete_front(status);
}

/// The acquire at the head of the queue is answered.
void Requester::Answer::begin_scope() {
  const SendQueue& queue = qp_.send_queue();
  requester_.scope_.begin(queue.front().lock().result, packet_.headers.lkaeth);
  const wire::Lketh& acquire = qp_.lock_wqe(queue.head()).header;
  if (requester_.scope_.is_failed() && acquire.scope_psns == 0) {
    qp_.forget_posted_lock(acquire.scope_id);
  }
}

/// The oldest request waits for its lock: that is no reason to send it again.
void Requester::Answer::on_sign_of_life() {
  const std::uint32_t distance = ahead();
  if (distance >= requester_.window_.sent_ahead()) {
    drop(DropReason::duplicate_response);
    return;
  }
  if (requester_.acknowledge(distance, now_ns_) > 0) {
    requester_.on_implied_nak(ahead(), now_ns_);
    return;
  }
  if (qp_.send_queue().empty() || qp_.send_queue().front().opcode != WrOpcode::lock_acquire) return;
  requester_.retry_.on_sign_of_life(qp_.retry_cnt());
  const std::uint64_t wait_ns = wire::local_ack_timeout_ns(qp_.attributes().timeout);
  if (wait_ns != 0 && !requester_.retry_.is_rnr_wait()) {
    requester_.retry_.await_answer(qp_.engine().timers(), now_ns_ + wait_ns);
  }
}

inline void Requester::Answer::dispatch() {
  switch (packet_.headers.opcode->operation) {
    case wire::Operation::acknowledge:
      on_acknowledge();
      break;
    case wire::Operation::rdma_read_response:
      on_read_response();
      break;
    case wire::Operation::atomic_acknowledge:
      on_atomic_acknowledge();
      break;
    case wire::Operation::lock_response:
      on_lock_response();
      break;
    case wire::Operation::selective_acknowledge:
      on_selective_acknowledge();
      break;
    default:
      drop(DropReason::unserved_opcode);
      break;
  }
}

void Requester::Answer::take(Requester& requester, const RxPacket& packet, std::uint64_t now_ns) {
  Answer(requester, packet, now_ns).dispatch();
}

}  // namespace rockhopper::roce::rc
