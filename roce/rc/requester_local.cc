// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Requests that no packet carries: binding windows, registering and invalidating regions; and those
// that are settled.
#include "roce/engine.h"
#include "roce/rc/requester.h"

namespace rockhopper::roce::rc {

/// Executes what is next of them, once each. False: one of them has to wait, or has failed.
///
/// They keep their place in the send queue and complete in order, but need no PSN. Going back, the
/// cursor passes those that have been executed.
bool Requester::run_local_requests() {
  SendQueue& queue = qp_.send_queue_;
  while (!window_.is_at_end(queue) && queue.at(window_.cursor()).needs_no_packet()) {
    SendWqe& wqe = queue.at(window_.cursor());
    if (window_.is_at_new()) {
      if (wqe.is_local() && !execute(wqe)) {
        return false;
      }
      window_.number_local(queue, wqe);
    }
    window_.skip_local(queue);
    retire_executed();
  }
  return true;
}

/// False: it has to wait, or has failed.
bool Requester::execute(SendWqe& wqe) {
  if (wqe.failure != WcStatus::success || !may_execute(wqe)) {
    return false;
  }
  if (!qp_.execute_local(wqe)) {
    wqe.failure = WcStatus::mw_bind_err;
    settle_front_failure();
    return false;
  }
  return true;
}

/// An invalidation waits until everything before it is complete: what is sent again must find its
/// keys (IBTA vol. 1, 10.8.3.3, leaves that to the consumer and the fence).
bool Requester::may_execute(const SendWqe& wqe) const {
  if (wqe.opcode == WrOpcode::local_inv && window_.cursor() != qp_.send_queue_.head()) {
    return false;
  }
  return qp_.state() == QpState::rts && !is_fenced(wqe);
}

void Requester::retire_executed() {
  const SendQueue& queue = qp_.send_queue_;
  while (queue.head() < window_.numbered() && queue.front().needs_no_packet()) {
    retire_front(queue.front().failure);
  }
}

}  // namespace rockhopper::roce::rc
