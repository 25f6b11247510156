// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/rc/sender.h"

namespace rockhopper::roce::rc {

/// The packet `index`, which does not end `request`, asks for an acknowledgement all the same.
bool Requester::Sender::asks_for_acknowledgement(const SendWqe& request,
                                                 std::uint32_t index) const {
  const std::uint32_t ack_interval = std::max(1u, most_unacked() / 2);
  // What is held behind a packet that is sent again may not ask for its acknowledgement.
  const bool closes_gap = qp_.repeats_selectively() && window().is_going_over();
  return index % ack_interval == ack_interval - 1 || requester_.credits_.is_limited(request) ||
         closes_gap || (qp_.pacer() != nullptr && qp_.pacer()->control().uses_acks());
}

/// The responses to another READ, `psns` of them, would be within the window of what can be held,
/// should those before them be missing.
bool Requester::Sender::can_hold_responses(std::uint32_t psns) const {
  return requester_.responses_.empty() || window().cursor_ahead() + psns <= HeldPackets::kWindow;
}

/// Tells congestion control, which measures round trips, and loss recovery.
void Requester::Sender::tell_sent(const SendWqe& request, bool again) {
  const wire::Psn psn = window().cursor_psn();
  if (qp_.pacer() != nullptr && !request.has_response()) {
    qp_.pacer()->rtt().on_sent(psn, again, qp_.engine().now_ns());
  }
  if (qp_.repeats_selectively()) qp_.selective_repeat()->on_sent(psn, again);
  // How long a lock is waited for says nothing of the path.
  if (qp_.adaptive_timeout() != nullptr && !request.of_lock()) {
    qp_.adaptive_timeout()->on_sent(psn, again, qp_.engine().now_ns());
  }
}

/// Moves the cursor over what has been sent before and need not be sent again
/// (docs/loss-recovery.md).
void Requester::Sender::pass_over_arrived() {
  const SendQueue& queue = qp_.send_queue();
  while (!window().is_at_new()) {
    const SendWqe& request = queue.at(window().cursor());
    if (request.is_local()) {
      requester_.window_.skip_local(queue);  // it has been executed
      continue;
    }
    if (request.failure != WcStatus::success || !window().is_going_over() ||
        !qp_.selective_repeat()->passes(window().cursor_psn())) {
      return;
    }
    advance(request, window().packet_of(request), window().psns_of_packet(request));
  }
}

/// Executes what is next of the requests that no packet carries, once each: those that bind
/// windows, register and invalidate regions. Returns false if one of them has to wait, or has
/// failed.
///
/// They keep their place in the send queue and complete in order, but need no PSN. Going back, the
/// cursor passes those that have been executed. Settled requests are passed too.
bool Requester::Sender::run_local_requests() {
  SendQueue& queue = qp_.send_queue();
  while (!is_at_end() && queue.at(window().cursor()).needs_no_packet()) {
    SendWqe& request = queue.at(window().cursor());
    if (window().is_at_new()) {
      if (request.is_local() && !execute(request)) return false;
      requester_.window_.number_local(queue, request);
    }
    requester_.window_.skip_local(queue);
    requester_.retire_executed();
  }
  return true;
}

/// Returns false if `request` has to wait, or has failed.
bool Requester::Sender::execute(SendWqe& request) {
  if (request.failure != WcStatus::success || !may_execute(request)) return false;
  if (!qp_.execute_local(request)) {
    request.failure = WcStatus::mw_bind_err;
    requester_.settle_front_failure();
    return false;
  }
  return true;
}

/// An invalidation waits until everything before it is complete: what is sent again must find its
/// keys (IBTA vol. 1, 10.8.3.3, leaves that to the consumer and the fence).
bool Requester::Sender::may_execute(const SendWqe& request) const {
  if (request.opcode == WrOpcode::local_inv && window().cursor() != qp_.send_queue().head()) {
    return false;
  }
  return qp_.state() == QpState::rts && !is_fenced(request);
}

}  // namespace rockhopper::roce::rc
