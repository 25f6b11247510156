// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/rc/settlement.h"

#include <cassert>

namespace rockhopper::roce::rc {

Settlement::Settlement(SendQueue& queue, const SendWindow& window,
                       std::optional<wire::Psn> executed)
    : queue_(queue), window_(window), executed_(executed) {
  if (executed_ && window_.ahead(*executed_) > window_.sent_ahead()) {
    executed_.reset();  // the peer cannot have seen that
  }
}

void Settlement::settle() {
  settle_scopes();
  for (std::uint64_t sequence = queue_.head(); sequence < window_.numbered(); ++sequence) {
    SendWqe& request = queue_.at(sequence);
    if (is_sent(request) && !request.needs_no_packet()) settle_sent(request);
    request.psn_count = 0;
  }
}

/// The oldest request may have begun before the oldest unacknowledged PSN.
bool Settlement::is_sent(const SendWqe& request) const {
  return wire::distance(window_.unacked_psn(), request.first_psn) <
         static_cast<std::int32_t>(window_.sent_ahead());
}

bool Settlement::may_be_executed(const SendWqe& request) const {
  return !executed_ || wire::distance(request.first_psn, *executed_) >=
                           static_cast<std::int32_t>(request.psn_count);
}

/// The locks of scopes that have begun are lost with the connection: nothing of them may be done
/// without.
void Settlement::settle_scopes() {
  bool begun = true;  // where the acquire is no longer in the queue
  for (std::uint64_t sequence = queue_.head(); sequence != queue_.tail(); ++sequence) {
    SendWqe& request = queue_.at(sequence);
    if (request.opcode == WrOpcode::lock_acquire) {
      begun = sequence < window_.numbered() && is_sent(request) && may_be_executed(request);
    } else if (request.in_scope() && begun) {
      request.flags |= SendWqe::kSettled;
      request.failure = WcStatus::outcome_unknown;
    }
  }
}

void Settlement::settle_sent(SendWqe& request) const {
  assert(request.psn_count > 0);
  const bool repeatable =
      request.is_read() || request.is_placement() || request.opcode == WrOpcode::rdma_write;
  if (!may_be_executed(request)) {
    return;  // it can be sent again
  }
  const WcStatus status =
      executed_ && !request.has_response() ? WcStatus::success : WcStatus::outcome_unknown;
  if (repeatable && status != WcStatus::success) return;
  request.flags |= SendWqe::kSettled;
  request.failure = status;
}

}  // namespace rockhopper::roce::rc
