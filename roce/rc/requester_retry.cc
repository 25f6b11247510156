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
      retry_(
          [](void* self, std::uint64_t now_ns) { static_cast<Requester*>(self)->on_timer(now_ns); },
          this) {}

void Requester::reset(wire::Psn first_psn) {
  stop();
  window_.reset(qp_.send_queue_, first_psn);
  credits_.reset();
  responses_.reset();
  retry_.reset(qp_.engine_.timers_, qp_.attributes_.retry_cnt, qp_.attributes_.rnr_retry);
}

void Requester::stop() {
  if (qp_.recovery_ != nullptr && qp_.recovery_->responses() != nullptr) {
    qp_.recovery_->responses()->clear();
  }
  retry_.stop(qp_.engine_.timers_);
  window_.stop(qp_.send_queue_);
  responses_.forget();
}

/// Begins to send again from the oldest unacknowledged PSN on.
void Requester::go_back(LossRecovery::Reason reason) {
  qp_.trace(TraceEvent::retransmit, window_.unacked_psn().value, retry_.retries_left());
  window_.go_back(qp_.send_queue_);
  responses_.forget();
  credits_.end_probe();
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
  if (sent_again && !retry_.is_implied_nak_done() && !retry_.is_rnr_wait() && use_retry()) {
    retry_.note_implied_nak();
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
  if (!retry_.use_retry()) {
    qp_.engine_.counters_.retry_exceeded_err.add();
    fail_front(WcStatus::retry_exc_err);
    return false;
  }
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
  const bool waits = window_.sent_ahead() > 0 || retry_.state() == Retry::State::unreachable;
  if (waits && wait_ns != 0) {
    retry_.await_answer(qp_.engine_.timers_, now_ns + wait_ns);
  } else {
    retry_.await_nothing(qp_.engine_.timers_);
  }
}

/// An adaptive timer has expired before the queue pair's own timeout: that is no retry yet.
bool Requester::is_early_timeout() {
  RetransmissionTimeout* timeout = qp_.recovery_ == nullptr ? nullptr : qp_.recovery_->timeout();
  return timeout != nullptr &&
         !timeout->on_expired(wire::local_ack_timeout_ns(qp_.attributes_.timeout));
}

void Requester::on_timer(std::uint64_t now_ns) {
  const Retry::State was = retry_.on_expired();
  if (was == Retry::State::rnr_wait) {
    qp_.engine_.schedule(qp_);
  } else {
    on_ack_timeout(was == Retry::State::unreachable, now_ns);
  }
}

/// No answer has come in time, or if the next hop is `unreachable`, no address of it.
void Requester::on_ack_timeout(bool unreachable, std::uint64_t now_ns) {
  qp_.engine_.counters_.local_ack_timeout_err.add();
  if (qp_.send_queue_.empty()) {
    return;
  }
  qp_.trace(TraceEvent::ack_timeout, window_.unacked_psn().value, retry_.retries_left());
  if (is_early_timeout() || use_retry()) {
    retry_.forget_implied_nak();
    note_loss(true, now_ns);
    if (window_.sent_ahead() > 0) {
      go_back_for_responses();
    }
    if (unreachable) {
      on_unreachable(now_ns);
    } else {
      restart_ack_timer(now_ns);
    }
    qp_.engine_.schedule(qp_);
  }
}

void Requester::note_loss(bool by_timeout, std::uint64_t now_ns) {
  if (qp_.pacer_ != nullptr) {
    qp_.pacer_->control().on_loss(by_timeout, now_ns);
  }
}

void Requester::on_unreachable(std::uint64_t now_ns) {
  const std::uint64_t wait_ns = timeout_ns();
  retry_.on_unreachable(qp_.engine_.timers_, !qp_.send_queue_.empty(),
                        wait_ns == 0 ? stack::kNever : now_ns + wait_ns);
}

}  // namespace rockhopper::roce::rc
