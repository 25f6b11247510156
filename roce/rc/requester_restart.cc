// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Beginning anew with another peer, or with the same one after the connection was lost.
#include "roce/engine.h"
#include "roce/rc/requester.h"

namespace rockhopper::roce::rc {

void Requester::restart(wire::Psn first_psn, std::optional<wire::Psn> executed) {
  SendQueue& queue = qp_.send_queue_;
  if (executed && window_.ahead(*executed) > window_.sent_ahead()) {
    executed.reset();  // the peer cannot have seen that
  }
  settle_scopes(executed);
  for (std::uint64_t sequence = queue.head(); sequence < window_.numbered(); ++sequence) {
    SendWqe& wqe = queue.at(sequence);
    // The oldest may have begun before the unacknowledged PSN.
    if (is_sent(wqe) && !wqe.needs_no_packet()) {
      settle(wqe, executed);
    }
    wqe.psn_count = 0;
  }
  reset(first_psn);
  window_.restart(queue, first_psn);
  retire_executed();
  qp_.schedule();
}

void Requester::pause() {
  if (!drained()) {
    go_back();
  }
  retry_.pause(qp_.engine_.timers_, qp_.attributes_.retry_cnt);
}

bool Requester::is_sent(const SendWqe& wqe) const {
  return distance(window_.unacked_psn(), wqe.first_psn) <
         static_cast<std::int32_t>(window_.sent_ahead());
}

/// The peer may have executed all of it, or has, if it has told how far it came.
bool Requester::may_be_executed(const SendWqe& wqe, std::optional<wire::Psn> executed) {
  return !executed ||
         distance(wqe.first_psn, *executed) >= static_cast<std::int32_t>(wqe.psn_count);
}

/// The locks of scopes that have begun are lost with the connection: nothing of them may be done
/// without.
void Requester::settle_scopes(std::optional<wire::Psn> executed) {
  SendQueue& queue = qp_.send_queue_;
  bool begun = true;  // of requests without an acquire
  for (std::uint64_t sequence = queue.head(); sequence != queue.tail(); ++sequence) {
    SendWqe& wqe = queue.at(sequence);
    if (wqe.opcode == WrOpcode::lock_acquire) {
      begun = sequence < window_.numbered() && is_sent(wqe) && may_be_executed(wqe, executed);
    } else if (wqe.in_scope() && begun) {
      wqe.flags |= SendWqe::kSettled;
      wqe.failure = WcStatus::outcome_unknown;
    }
  }
}

/// A request of which something has been sent.
void Requester::settle(SendWqe& wqe, std::optional<wire::Psn> executed) const {
  const bool repeatable = wqe.is_read() || wqe.is_placement() || wqe.opcode == WrOpcode::rdma_write;
  if (!may_be_executed(wqe, executed)) {
    return;  // it can be sent again
  }
  const WcStatus status =
      executed && !wqe.has_response() ? WcStatus::success : WcStatus::outcome_unknown;
  if (repeatable && status != WcStatus::success) {
    return;
  }
  wqe.flags |= SendWqe::kSettled;
  wqe.failure = status;
}

}  // namespace rockhopper::roce::rc
