// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Locks asked for at the peer: what comes back, and what it means for the requests of a scope.
#include <algorithm>

#include "roce/engine.h"
#include "roce/lock/request.h"
#include "roce/rc/requester.h"
#include "roce/wire/timer_code.h"

namespace rockhopper::roce::rc {

using wire::LockStatus;

namespace {

/// The answers that a request can have.
bool fits(const SendWqe& wqe, LockStatus status) {
  switch (wqe.opcode) {
    case WrOpcode::lock_acquire:
      return status == LockStatus::granted || status == LockStatus::failed;
    case WrOpcode::lock_release:
      return status == LockStatus::released || status == LockStatus::failed ||
             (status == LockStatus::flushed && wqe.in_scope());
    case WrOpcode::lock_cancel:
      return status == LockStatus::canceled || status == LockStatus::failed;
    default:
      return status == LockStatus::flushed && wqe.has_response() && wqe.in_scope();
  }
}

}  // namespace

void Requester::on_lock_response(const RxPacket& packet, std::uint64_t now_ns) {
  const wire::Lkaeth& answer = packet.headers.lkaeth;
  if (answer.status == LockStatus::waiting) {
    on_sign_of_life(packet, now_ns);
    return;
  }
  SendWqe* wqe = await_response(packet, now_ns);
  if (wqe == nullptr) {
    return;
  }
  const std::uint32_t done = window_.acknowledged_of(*wqe);
  if (!fits(*wqe, answer.status) || done != 0) {
    qp_.engine_.count_drop(DropReason::bad_response, packet.payload.packet);
    fail_front(WcStatus::bad_resp_err);
    return;
  }
  WcStatus status = WcStatus::success;
  if (answer.status == LockStatus::failed) {
    status = WcStatus::lock_failed;
  } else if (answer.status == LockStatus::flushed) {
    status = WcStatus::lock_flushed;
  }
  if (wqe->opcode == WrOpcode::lock_acquire) {
    begin_scope(answer);
  } else if (wqe->opcode == WrOpcode::lock_release && status == WcStatus::lock_failed) {
    lose_scope(answer.cause);
  }
  advance(wqe->psn_count, now_ns);
  complete_front(status);
}

/// The oldest request waits for its lock: that is no reason to send it again.
void Requester::on_sign_of_life(const RxPacket& packet, std::uint64_t now_ns) {
  const std::uint32_t distance = window_.ahead(packet.headers.bth.psn);
  if (distance >= window_.sent_ahead()) {
    qp_.engine_.count_drop(DropReason::duplicate_response, packet.payload.packet);
    return;
  }
  if (acknowledge(distance, now_ns) > 0) {
    implied_nak(window_.ahead(packet.headers.bth.psn), now_ns);
    return;
  }
  if (qp_.send_queue_.empty() || qp_.send_queue_.front().opcode != WrOpcode::lock_acquire) {
    return;
  }
  retry_.on_sign_of_life(qp_.attributes_.retry_cnt);
  const std::uint64_t wait_ns = wire::local_ack_timeout_ns(qp_.attributes_.timeout);
  if (wait_ns != 0 && !retry_.is_rnr_wait()) {
    retry_.await_answer(qp_.engine_.timers_, now_ns + wait_ns);
  }
}

/// The acquire at the head of the queue is answered.
void Requester::begin_scope(const wire::Lkaeth& answer) {
  const LockWqe& wqe = qp_.lock_wqe(qp_.send_queue_.head());
  const bool granted = answer.status == LockStatus::granted;
  scope_ = {.result = wqe.result, .failed = !granted};
  if (!granted && wqe.header.scope_psns == 0 && wqe.header.scope_id == qp_.lock_id_) {
    qp_.posted_lock_ = QueuePair::PostedLock::none;  // there will be no release
  }
  if (lock::ScopeResult* result = wqe.result; result != nullptr) {
    result->status = granted ? WcStatus::success : WcStatus::lock_failed;
    result->cause = answer.cause;
    result->previous_word = answer.previous_word;
    (granted ? result->token : result->looks) = answer.value;
  }
}

/// The target had taken the lock back before its release came. Which of the accesses it has still
/// executed is not known.
void Requester::lose_scope(wire::LockCause cause) {
  if (scope_.result != nullptr) {
    scope_.result->cause = cause;
    const auto accesses = scope_.result->accesses;
    std::ranges::replace(accesses.first(std::min<std::size_t>(scope_.accesses, accesses.size())),
                         WcStatus::success, WcStatus::outcome_unknown);
  }
}

/// The oldest request is one of its, and ends the connection.
void Requester::fail_scope(WcStatus status) const {
  lock::ScopeResult* result = qp_.lock_wqe(qp_.send_queue_.head()).result;
  if (result != nullptr) {
    result->status = status;
  }
}

/// What a lock request, or one that belongs to a scope, completes with.
WcStatus Requester::complete_in_scope(const SendWqe& wqe, WcStatus status) {
  lock::ScopeResult* result = scope_.result;
  if (wqe.opcode == WrOpcode::lock_acquire) {
    if (wqe.is_settled()) {
      scope_ = {.result = qp_.lock_wqe(qp_.send_queue_.head()).result, .failed = true};
      if (scope_.result != nullptr) scope_.result->status = status;
    }
  } else if (wqe.opcode == WrOpcode::lock_release) {
    if (scope_.failed && status != WcStatus::outcome_unknown) {
      status = WcStatus::lock_failed;
    }
    if (result != nullptr) {
      result->status = status;
    }
    scope_ = {};
  } else if (wqe.in_scope()) {
    if (scope_.failed && status == WcStatus::success) {
      status = WcStatus::lock_flushed;
    }
    scope_.failed = scope_.failed || status == WcStatus::lock_flushed;
    if (result != nullptr && scope_.accesses < result->accesses.size()) {
      result->accesses[scope_.accesses] = status;
    }
    ++scope_.accesses;
  }
  return status;
}

}  // namespace rockhopper::roce::rc
