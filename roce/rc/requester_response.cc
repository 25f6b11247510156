// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What comes back: acknowledgements, NAKs, READ and atomic responses.
#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include "roce/congestion/pacer.h"
#include "roce/engine.h"
#include "roce/rc/requester.h"
#include "roce/wire/timer_code.h"

namespace rockhopper::roce::rc {
namespace {

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

}  // namespace

void Requester::on_response(const RxPacket& packet, std::uint64_t now_ns) {
  if (qp_.recovery_ == nullptr) [[likely]] {
    take_answer(packet, now_ns);
    return;
  }
  take_answer(packet, now_ns);
  take_held_responses(now_ns);
}

/// ACK, NAK or RNR NAK.
void Requester::on_acknowledge(const RxPacket& packet, std::uint64_t now_ns) {
  EngineCounters& counters = qp_.engine_.counters_;
  const wire::Aeth& aeth = packet.headers.aeth;
  const std::uint32_t distance = window_.ahead(packet.headers.bth.psn);
  if (distance >= window_.sent_ahead()) {
    // Also how a responder repeats itself after duplicates: it may still bring credits.
    if (aeth.kind() == wire::AethKind::ack && packet.headers.bth.psn == window_.unacked_psn() - 1) {
      take_credits(aeth);
      return;
    }
    qp_.engine_.count_drop(DropReason::ghost_acknowledge, packet.payload.packet);
    return;
  }
  if (qp_.recovery_ != nullptr) [[unlikely]] {
    note_received(packet.headers.bth.psn + (aeth.kind() == wire::AethKind::ack ? 1 : 0));
  }
  switch (aeth.kind()) {
    case wire::AethKind::ack:
      counters.rcvd_ack.add();
      take_credits(aeth);
      if (acknowledge(distance + 1, now_ns) > 0) {
        implied_nak(window_.ahead(packet.headers.bth.psn), now_ns);
      }
      break;
    case wire::AethKind::nak:
      if (acknowledge(distance, now_ns) > 0) {
        const std::uint32_t received = window_.ahead(packet.headers.bth.psn);
        if (qp_.send_queue_.front().opcode == WrOpcode::lock_acquire) {
          // What is missing is behind an acquire that is not answered yet.
          retry_.on_received(received, qp_.attributes_.retry_cnt);
        }
        implied_nak(received, now_ns);
      } else if (!qp_.send_queue_.empty()) {
        on_nak(aeth.nak_code(), now_ns);
      }
      break;
    case wire::AethKind::rnr_nak:
      if (acknowledge(distance, now_ns) > 0) {
        implied_nak(window_.ahead(packet.headers.bth.psn), now_ns);
      } else if (!qp_.send_queue_.empty()) {
        on_rnr_nak(aeth.timer(), now_ns);
      }
      break;
    case wire::AethKind::reserved:
      qp_.engine_.count_drop(DropReason::bad_response, packet.payload.packet);
      break;
  }
}

/// Acknowledges `count` PSNs. Stops before a READ or atomic whose response is missing and returns
/// how many are left then.
std::uint32_t Requester::acknowledge(std::uint32_t count, std::uint64_t now_ns) {
  SendQueue& queue = qp_.send_queue_;
  if (count == 0 || queue.empty()) {
    return 0;
  }
  if (queue.front().has_response()) {
    return count;
  }
  note_progress();
  while (count > 0 && !queue.empty() && !queue.front().has_response()) {
    const SendWqe& wqe = queue.front();
    const std::uint32_t done = window_.acknowledged_of(wqe);
    const std::uint32_t step = std::min(count, wqe.psn_count - done);
    move_unacked(step, now_ns);
    count -= step;
    if (done + step == wqe.psn_count) {
      complete_front(WcStatus::success);
    }
  }
  if (qp_.state() != QpState::err) {  // else completing failed the queue pair: nothing is awaited
    restart_ack_timer(now_ns);
  }
  return queue.empty() ? 0 : count;
}

/// Acknowledges PSNs of the front request.
void Requester::advance(std::uint32_t count, std::uint64_t now_ns) {
  note_progress();
  move_unacked(count, now_ns);
  restart_ack_timer(now_ns);
}

inline void Requester::note_progress() {
  retry_.on_progress(qp_.attributes_.retry_cnt, qp_.attributes_.rnr_retry);
  credits_.end_probe();
  qp_.engine_.schedule(qp_);
}

/// PSNs of the front request are acknowledged.
inline void Requester::move_unacked(std::uint32_t count, std::uint64_t now_ns) {
  SendQueue& queue = qp_.send_queue_;
  if (qp_.pacer_ != nullptr || qp_.recovery_ != nullptr) [[unlikely]] {
    note_acknowledged(count, now_ns);
  }
  window_.acknowledge(count);
  if (queue.front().has_response() && window_.cursor() > queue.head()) {
    responses_.on_responses(count);
  }
}

/// For those who measure round trips.
void Requester::note_acknowledged(std::uint32_t count, std::uint64_t now_ns) {
  if (count == 0) {
    return;
  }
  const wire::Psn last = window_.unacked_psn() + (count - 1);
  if (qp_.pacer_ != nullptr) {
    Pacer& pacer = *qp_.pacer_;
    const std::uint64_t rtt_ns = pacer.rtt().on_acknowledged(last, now_ns);
    pacer.control().on_ack(count, rtt_ns, now_ns);
  }
  if (qp_.recovery_ != nullptr && qp_.recovery_->timeout() != nullptr) {
    qp_.recovery_->timeout()->on_acknowledged(last, now_ns);
  }
}

/// And what has been executed behind it and waited for it.
void Requester::complete_front(WcStatus status) {
  retire_front(status);
  const SendQueue& queue = qp_.send_queue_;
  if (queue.head() < window_.numbered() && queue.front().needs_no_packet()) [[unlikely]] {
    retire_executed();
  }
}

void Requester::retire_front(WcStatus status) {
  SendQueue& queue = qp_.send_queue_;
  const SendWqe& wqe = queue.front();  // its place stays as it is while nothing is posted
  if (wqe.of_lock()) [[unlikely]] {
    status = complete_in_scope(wqe, status);
  }
  if (wqe.has_response() && !wqe.is_settled()) {
    responses_.on_answered(window_.cursor() > queue.head());
  }
  queue.pop();
  window_.on_retired(queue);
  qp_.complete_send(wqe, status);
  settle_front_failure();
  if (qp_.state() == QpState::sqd && drained()) {
    qp_.on_drained();
  }
}

/// A request that failed locally while being sent completes once all before it have.
void Requester::settle_front_failure() {
  SendQueue& queue = qp_.send_queue_;
  if (!queue.empty() && window_.cursor() == queue.head() && !queue.front().is_settled() &&
      queue.front().failure != WcStatus::success) {
    fail_front(queue.front().failure);
  }
}

void Requester::fail_front(WcStatus status) {
  SendQueue& queue = qp_.send_queue_;
  const SendWqe wqe = queue.front();
  if (wqe.is_lock()) [[unlikely]] {
    fail_scope(status);
  }
  queue.pop();
  qp_.complete_send(wqe, status);
  qp_.enter_error();
}

void Requester::on_nak(wire::NakCode code, std::uint64_t now_ns) {
  EngineCounters& counters = qp_.engine_.counters_;
  if (code == wire::NakCode::psn_sequence_error) {
    counters.rcvd_seq_err.add();
    // Packets behind one that drew an RNR NAK draw this from some responders: the wait covers it.
    if (!retry_.is_rnr_wait() && use_retry()) {
      note_loss(false, now_ns);
      go_back();
      restart_ack_timer(now_ns);
    }
    return;
  }
  counters.rcvd_nak.add();
  fail_front(status_of(code));
}

void Requester::on_rnr_nak(std::uint8_t timer_code, std::uint64_t now_ns) {
  EngineCounters& counters = qp_.engine_.counters_;
  counters.rcvd_rnr_err.add();
  if (retry_.is_rnr_wait()) {
    return;
  }
  if (!retry_.use_rnr_retry(qp_.attributes_.rnr_retry)) {
    counters.retry_rnr_exceeded_err.add();
    fail_front(WcStatus::rnr_retry_exc_err);
    return;
  }
  // The peer may be busy for longer than losses are rare.
  retry_.on_sign_of_life(qp_.attributes_.retry_cnt);
  go_back();
  retry_.await_receiver(qp_.engine_.timers_, now_ns + wire::rnr_timer_ns(timer_code));
}

void Requester::take_credits(const wire::Aeth& aeth) {
  if (credits_.take(aeth)) {
    qp_.engine_.schedule(qp_);
  }
}

/// The front request, if `packet` holds the next of its response PSNs. A response acknowledges the
/// requests before its own.
SendWqe* Requester::await_response(const RxPacket& packet, std::uint64_t now_ns) {
  Engine& engine = qp_.engine_;
  const std::uint32_t distance = window_.ahead(packet.headers.bth.psn);
  if (distance >= window_.sent_ahead()) {
    engine.count_drop(DropReason::duplicate_response, packet.payload.packet);
    return nullptr;
  }
  if (qp_.recovery_ != nullptr) [[unlikely]] {
    note_received(packet.headers.bth.psn);
  }
  if (acknowledge(distance, now_ns) > 0) {
    if (hold_response(packet)) {
      implied_nak(window_.ahead(packet.headers.bth.psn), now_ns);
      return nullptr;
    }
    engine.count_drop(DropReason::out_of_order_response, packet.payload.packet);
    implied_nak(window_.ahead(packet.headers.bth.psn), now_ns, false);
    return nullptr;
  }
  if (qp_.send_queue_.empty() || window_.sent_ahead() == 0) {
    return nullptr;  // acknowledging failed the queue pair
  }
  return &qp_.send_queue_.front();
}

inline void Requester::on_read_response(const RxPacket& packet, std::uint64_t now_ns) {
  Engine& engine = qp_.engine_;
  SendWqe* wqe = await_response(packet, now_ns);
  if (wqe == nullptr) {
    return;
  }
  const std::uint32_t mtu = bytes(qp_.attributes_.path_mtu);
  const std::uint32_t index = window_.acknowledged_of(*wqe);
  const std::uint64_t offset = std::uint64_t{index} * mtu;
  const bool last = index + 1 == wqe->psn_count;
  std::uint64_t expected_length = last ? wqe->length - offset : mtu;
  if (wqe->is_placement()) {
    expected_length = 0;
  }
  // Whether a response is a first or a middle one depends on where the last retry started.
  if (!(wqe->is_read() || wqe->is_placement()) || packet.headers.opcode->ends() != last ||
      packet.payload.length != expected_length) {
    engine.count_drop(DropReason::bad_response, packet.payload.packet);
    fail_front(WcStatus::bad_resp_err);
    return;
  }
  const auto list = qp_.send_queue_.sges(qp_.send_queue_.head()).first(wqe->num_sge);
  if (scatter(engine.memory_, qp_.init_.pd, list, offset, packet.payload) != MemoryStatus::ok) {
    fail_front(WcStatus::loc_prot_err);
    return;
  }
  if (packet.headers.opcode->has(wire::Header::aeth)) {
    take_credits(packet.headers.aeth);
  }
  advance(1, now_ns);
  if (last) {
    complete_front(WcStatus::success);
  }
}

inline void Requester::on_atomic_acknowledge(const RxPacket& packet, std::uint64_t now_ns) {
  Engine& engine = qp_.engine_;
  SendWqe* wqe = await_response(packet, now_ns);
  if (wqe == nullptr) {
    return;
  }
  if (!wqe->is_atomic()) {
    engine.count_drop(DropReason::bad_response, packet.payload.packet);
    fail_front(WcStatus::bad_resp_err);
    return;
  }
  const std::uint64_t original = packet.headers.atomic_ack_eth.original;
  const auto* from = reinterpret_cast<const std::byte*>(&original);
  const auto list = qp_.send_queue_.sges(qp_.send_queue_.head()).first(wqe->num_sge);
  const MemoryStatus status =
      for_each_piece(engine.memory_, qp_.init_.pd, list, 0, sizeof original, kAccessLocalWrite,
                     [&from](std::byte* data, std::uint32_t length) {
                       std::memcpy(data, from, length);
                       from += length;
                       return true;
                     });
  if (status != MemoryStatus::ok) {
    fail_front(WcStatus::loc_prot_err);
    return;
  }
  take_credits(packet.headers.aeth);
  advance(1, now_ns);
  complete_front(WcStatus::success);
}

void Requester::take_answer(const RxPacket& packet, std::uint64_t now_ns) {
  switch (packet.headers.opcode->operation) {
    case wire::Operation::acknowledge:
      on_acknowledge(packet, now_ns);
      break;
    case wire::Operation::rdma_read_response:
      on_read_response(packet, now_ns);
      break;
    case wire::Operation::atomic_acknowledge:
      on_atomic_acknowledge(packet, now_ns);
      break;
    case wire::Operation::lock_response:
      on_lock_response(packet, now_ns);
      break;
    case wire::Operation::selective_acknowledge:
      on_selective_acknowledge(packet, now_ns);
      break;
    default:
      qp_.engine_.count_drop(DropReason::unserved_opcode, packet.payload.packet);
      break;
  }
}

}  // namespace rockhopper::roce::rc
