// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Losing packets and trying again: timers, retry counts, going back.
#include "roce/congestion/pacer.h"
#include "roce/engine.h"
#include "roce/rc/requester.h"
#include "roce/wire/timer_code.h"

namespace rockhopper::roce::rc {

Requester::Requester(QueuePair& qp)
    : qp_(qp),
      timer_(
          [](void* self, std::uint64_t now_ns) { static_cast<Requester*>(self)->on_timer(now_ns); },
          this) {}

void Requester::reset(wire::Psn first_psn) {
  stop();
  window_.reset(qp_.send_queue_, first_psn);
  next_ssn_ = 1;
  credits_known_ = false;
  probing_ = false;
  implied_nak_done_ = false;
  received_ahead_ = 0;
  responses_.reset();
  retries_left_ = qp_.attributes_.retry_cnt;
  rnr_retries_left_ = qp_.attributes_.rnr_retry;
}

void Requester::stop() {
  if (qp_.recovery_ != nullptr && qp_.recovery_->responses() != nullptr) {
    qp_.recovery_->responses()->clear();
  }
  qp_.engine_.timers_.cancel(timer_);
  rnr_waiting_ = false;
  window_.stop(qp_.send_queue_);
  responses_.forget();
}

/// Begins to send again from the oldest unacknowledged PSN on.
void Requester::go_back(LossRecovery::Reason reason) {
  qp_.trace(TraceEvent::retransmit, window_.unacked_psn().value, retries_left_);
  window_.go_back(qp_.send_queue_);
  responses_.forget();
  probing_ = false;
  if (qp_.recovery_ != nullptr) {
    qp_.recovery_->on_going_back(reason, window_.unacked_psn());
  }
  qp_.engine_.schedule(qp_);
}

/// Responses have stayed away: one READ or atomic is asked for again at first.
void Requester::go_back_for_responses() {
  responses_.narrow();
  go_back();
}

/// Something behind a READ or atomic was acknowledged, `distance` PSNs ahead of the oldest one, so
/// its response was lost. Answers to what was sent before going back say so again: they do not
/// count, and of the others only the first until there is progress. Where responses are held, the
/// rest is there or comes still, unless one was not `held`.
void Requester::implied_nak(std::uint32_t distance, std::uint64_t now_ns, bool held) {
  qp_.engine_.counters_.implied_nak_seq_err.add();
  const bool sent_again = distance < window_.cursor_ahead();
  const bool selective = held && qp_.repeats_selectively();
  if (selective && !qp_.recovery_->on_response_skipped(window_.unacked_psn())) {
    return;
  }
  if (sent_again && !implied_nak_done_ && !rnr_waiting_ && use_retry()) {
    implied_nak_done_ = true;
    note_loss(false, now_ns);
    if (selective) {
      go_back(LossRecovery::Reason::response);
    } else {
      go_back_for_responses();
    }
    restart_ack_timer(now_ns);
  }
}

bool Requester::use_retry() {
  if (retries_left_ == 0) {
    qp_.engine_.counters_.retry_exceeded_err.add();
    fail_front(WcStatus::retry_exc_err);
    return false;
  }
  --retries_left_;
  return true;
}

/// 0: the timer never expires.
inline std::uint64_t Requester::timeout_ns() const {
  const std::uint64_t limit_ns = wire::local_ack_timeout_ns(qp_.attributes_.timeout);
  if (qp_.recovery_ != nullptr && qp_.recovery_->timeout() != nullptr) [[unlikely]] {
    return qp_.recovery_->timeout()->value_ns(limit_ns);
  }
  return limit_ns;
}

void Requester::restart_ack_timer(std::uint64_t now_ns) {
  const std::uint64_t wait_ns = timeout_ns();
  stack::TimingWheel& timers = qp_.engine_.timers_;
  if ((window_.sent_ahead() > 0 || unreachable_) && wait_ns != 0) {
    timers.arm(timer_, now_ns + wait_ns);
  } else {
    timers.cancel(timer_);
  }
}

/// An adaptive timer has expired before the queue pair's own timeout: that is no retry yet.
bool Requester::is_early_timeout() {
  RetransmissionTimeout* timeout = qp_.recovery_ == nullptr ? nullptr : qp_.recovery_->timeout();
  return timeout != nullptr &&
         !timeout->on_expired(wire::local_ack_timeout_ns(qp_.attributes_.timeout));
}

/// One timer serves both waits: nothing is sent that could be answered until an RNR NAK's is over.
void Requester::on_timer(std::uint64_t now_ns) {
  if (rnr_waiting_) {
    rnr_waiting_ = false;
    qp_.engine_.schedule(qp_);
  } else {
    on_ack_timeout(now_ns);
  }
}

void Requester::on_ack_timeout(std::uint64_t now_ns) {
  qp_.engine_.counters_.local_ack_timeout_err.add();
  if (qp_.send_queue_.empty()) {
    return;
  }
  qp_.trace(TraceEvent::ack_timeout, window_.unacked_psn().value, retries_left_);
  if (is_early_timeout() || use_retry()) {
    implied_nak_done_ = false;
    note_loss(true, now_ns);
    if (window_.sent_ahead() > 0) {
      go_back_for_responses();
    }
    restart_ack_timer(now_ns);
    qp_.engine_.schedule(qp_);
  }
}

void Requester::note_loss(bool by_timeout, std::uint64_t now_ns) {
  if (qp_.pacer_ != nullptr) {
    qp_.pacer_->control().on_loss(by_timeout, now_ns);
  }
}

void Requester::on_unreachable(std::uint64_t now_ns) {
  unreachable_ = true;
  if (!timer_.armed() && !qp_.send_queue_.empty()) {
    restart_ack_timer(now_ns);
  }
}

}  // namespace rockhopper::roce::rc
