// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Selective repeat (docs/loss-recovery.md): what the peer holds, passing over it, and responses
// that have come before others.
#include "roce/congestion/pacer.h"
#include "roce/engine.h"
#include "roce/rc/requester.h"

namespace rockhopper::roce::rc {

/// What the answer `psn` says beside what it acknowledges: all requests before it have arrived.
void Requester::note_received(wire::Psn psn) {
  if (window_.ahead(psn) <= window_.sent_ahead()) {
    qp_.recovery_->on_received_before(psn);
  }
}

void Requester::on_selective_acknowledge(const RxPacket& packet, std::uint64_t now_ns) {
  Engine& engine = qp_.engine_;
  const wire::Psn missing = packet.headers.bth.psn;
  const wire::Saeth& held = packet.headers.saeth;
  const std::uint32_t distance = window_.ahead(missing);
  const std::uint32_t length = held.length();
  const std::uint32_t sent = window_.sent_ahead();
  const bool never_sent = distance < sent && distance + length >= sent;
  if (packet.headers.aeth.kind() != wire::AethKind::ack || length == 0 || never_sent) {
    engine.count_drop(DropReason::bad_selective_ack, packet.payload.packet);
    return;
  }
  if (distance >= sent) {
    engine.count_drop(DropReason::ghost_acknowledge, packet.payload.packet);
    return;
  }
  engine.counters_.rcvd_selective_ack.add();
  take_credits(packet.headers.aeth);
  note_received(missing);
  if (acknowledge(distance, now_ns) > 0) {
    implied_nak(window_.ahead(missing), now_ns);
  }
  if (qp_.send_queue_.empty() || window_.sent_ahead() == 0) {
    return;  // that failed the queue pair
  }
  LossRecovery& recovery = *qp_.recovery_;
  const bool going_over = window_.is_going_over();
  if (recovery.on_selective_ack(missing, held) && !retry_.is_rnr_wait() &&
      !(going_over && recovery.repeats_everything())) {
    note_loss(false, now_ns);
    go_back(LossRecovery::Reason::lost);
  }
}

/// Moves the cursor over what has been sent before and need not be sent again.
void Requester::pass_over() {
  const SendQueue& queue = qp_.send_queue_;
  while (!window_.is_at_new()) {
    const SendWqe& wqe = queue.at(window_.cursor());
    if (wqe.is_local()) {
      window_.skip_local(queue);  // executed
      continue;
    }
    if (wqe.failure != WcStatus::success || !window_.is_going_over() ||
        !qp_.recovery_->passes(window_.cursor_psn())) {
      return;
    }
    step_cursor(wqe);
  }
}

/// The responses to another READ, `psns` of them, would be within the window of what can be held,
/// should those before them be missing.
bool Requester::can_hold_responses(std::uint32_t psns) const {
  return !qp_.repeats_selectively() || responses_.empty() ||
         window_.cursor_ahead() + psns <= HeldPackets::kWindow;
}

/// A response behind a missing one. False: it is not held.
bool Requester::hold_response(const RxPacket& packet) {
  HeldPackets* held = qp_.recovery_ == nullptr ? nullptr : qp_.recovery_->responses();
  if (held == nullptr) {
    return false;
  }
  EngineCounters& counters = qp_.engine_.counters_;
  switch (held->hold(packet, window_.ahead(packet.headers.bth.psn))) {
    case HeldPackets::Result::held:
      counters.held_responses.add();
      return true;
    case HeldPackets::Result::duplicate:
      qp_.engine_.count_drop(DropReason::duplicate_response, packet.payload.packet);
      return true;
    case HeldPackets::Result::no_room:
      counters.held_pkts_no_room.add();
      break;
  }
  return false;
}

/// The PSN of the next response that the peer owes; nothing if it owes none.
std::optional<wire::Psn> Requester::next_response() const {
  const SendQueue& queue = qp_.send_queue_;
  for (std::uint64_t sequence = queue.head(); sequence < window_.numbered(); ++sequence) {
    const SendWqe& wqe = queue.at(sequence);
    if (wqe.has_response()) {
      return sequence == queue.head() ? window_.unacked_psn() : wqe.first_psn;
    }
  }
  return std::nullopt;
}

/// Takes the held responses whose turn it is.
void Requester::take_held_responses(std::uint64_t now_ns) {
  HeldPackets* held = qp_.recovery_->responses();
  while (held != nullptr && !held->empty()) {
    held->discard_before(window_.unacked_psn());
    const std::optional<wire::Psn> next = next_response();
    if (!next ||
        !held->deliver(*next, [&](const RxPacket& packet) { take_answer(packet, now_ns); })) {
      return;
    }
  }
}

}  // namespace rockhopper::roce::rc
