// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

#include <rte_mbuf.h>

#include "roce/congestion/pacer.h"
#include "roce/rc/request_packet.h"
#include "roce/rc/requester.h"
#include "roce/segmentation.h"
#include "roce/transport_context.h"

namespace rockhopper::roce::rc {

/// Sends what may be sent now, in order: which request is next, whether it may go, and what is to
/// be noted of it then. Lives for one call of Requester::transmit().
class Requester::Sender {
 public:
  explicit Sender(Requester& requester) : requester_(requester), qp_(requester.qp_) {}

  [[nodiscard, gnu::always_inline]] TransmitResult run(rte_mbuf** packets, std::uint16_t count);

 private:
  // Questions.
  [[nodiscard]] bool is_at_end() const { return window().is_at_end(qp_.send_queue()); }
  [[nodiscard]] bool may_go_on() const;
  [[nodiscard]] bool may_send(const SendWqe& request, std::uint32_t index,
                              std::uint32_t psns) const;
  [[nodiscard]] bool may_start(const SendWqe& request, std::uint32_t psns) const;
  [[nodiscard]] bool may_execute(const SendWqe& request) const;
  [[nodiscard]] bool is_fenced(const SendWqe& request) const;
  [[nodiscard]] bool can_hold_responses(std::uint32_t psns) const;
  [[nodiscard]] std::uint32_t psns_of(const SendWqe& request) const;
  [[nodiscard]] std::uint32_t packets_in_flight() const;
  [[nodiscard]] std::uint32_t most_unacked() const;
  [[nodiscard]] std::uint32_t packets_allowed() const;
  [[nodiscard]] bool asks_for_acknowledgement(const SendWqe& request, std::uint32_t index) const;

  // Moving the cursor.
  [[nodiscard]] SendWqe* come_to_packet();
  void pass_over_arrived();
  [[nodiscard]] bool run_local_requests();
  [[nodiscard]] bool execute(SendWqe& request);
  void advance(const SendWqe& request, std::uint32_t index, std::uint32_t psns);
  void note_sent(const SendWqe& request, std::uint32_t index);
  void tell_sent(const SendWqe& request, bool again);

  [[nodiscard]] const SendWindow& window() const { return requester_.window_; }
  /// What is rare is done by another one, so that what this one refers to stays in registers.
  [[nodiscard]] Sender other() const { return Sender(requester_); }

  Requester& requester_;
  TransportContext qp_;
};

inline bool Requester::Sender::may_go_on() const {
  return (qp_.state() == QpState::rts || qp_.state() == QpState::sqd) &&
         !requester_.retry_.is_rnr_wait() && !is_at_end();
}

/// READs and atomics before `request` have to be answered first.
inline bool Requester::Sender::is_fenced(const SendWqe& request) const {
  return (request.flags & kSendFence) != 0 && !requester_.responses_.empty();
}

inline bool Requester::Sender::may_start(const SendWqe& request, std::uint32_t psns) const {
  if (is_fenced(request)) return false;
  if (!request.has_response()) return true;
  // No scope is stopped half-way by what may be outstanding after a loss.
  const bool goes_on = request.in_scope() || request.opcode == WrOpcode::lock_cancel;
  return requester_.responses_.has_room(qp_.attributes().max_rd_atomic, !goes_on) &&
         (!qp_.repeats_selectively() || other().can_hold_responses(psns));
}

/// Counts the PSNs that `request` takes in all.
inline std::uint32_t Requester::Sender::psns_of(const SendWqe& request) const {
  return request.has_response() && !request.is_read()
             ? 1
             : packets_of(request.length, bytes(qp_.attributes().path_mtu));
}

/// Counts the request packets that are sent and not acknowledged. The responses to READs and
/// atomics do not count.
inline std::uint32_t Requester::Sender::packets_in_flight() const {
  const std::uint32_t sent = window().cursor_ahead();
  const std::uint32_t of_responses = requester_.responses_.psns();
  assert(sent >= of_responses);
  return sent - of_responses;
}

/// Returns how many request packets may be unacknowledged, whatever the congestion control says.
inline std::uint32_t Requester::Sender::most_unacked() const {
  const std::uint32_t most = qp_.engine().config().max_unacked_packets;
  return qp_.repeats_selectively() ? std::min(most, qp_.selective_repeat()->parameters().window)
                                   : most;
}

/// Returns how many request packets may be unacknowledged.
inline std::uint32_t Requester::Sender::packets_allowed() const {
  const std::uint32_t most = most_unacked();
  return qp_.pacer() == nullptr ? most : std::min(most, qp_.pacer()->control().window_packets());
}

/// `request` is the one at the cursor, `index` its next packet, and `psns` what it takes from there
/// to its end. Whether the peer has a receive request for it is another question, which only a
/// request with a number can ask.
inline bool Requester::Sender::may_send(const SendWqe& request, std::uint32_t index,
                                        std::uint32_t psns) const {
  if (request.failure != WcStatus::success) {
    return false;  // it fails in its turn, and nothing behind it is sent
  }
  if (window().is_at_new() && (qp_.state() == QpState::sqd || !window().has_room(psns))) {
    return false;
  }
  if (request.has_response()) return may_start(request, psns);
  if (index == 0 && !may_start(request, psns)) return false;
  // What belongs to a scope whose acquire has left must follow: the target may wait for it.
  return packets_in_flight() < packets_allowed() || request.in_scope();
}

/// Moves the cursor to the next request that a packet carries, and returns it; null: there is none.
inline SendWqe* Requester::Sender::come_to_packet() {
  if (qp_.repeats_selectively()) [[unlikely]] {
    other().pass_over_arrived();
    if (is_at_end()) return nullptr;
  }
  SendWqe* request = &qp_.send_queue().at(window().cursor());
  if (request->needs_no_packet()) [[unlikely]] {
    return other().run_local_requests() && !is_at_end() ? &qp_.send_queue().at(window().cursor())
                                                        : nullptr;
  }
  return request;
}

/// The cursor moves over `psns` PSNs of `request`, which is at its packet `index`.
inline void Requester::Sender::advance(const SendWqe& request, std::uint32_t index,
                                       std::uint32_t psns) {
  requester_.credits_.on_sent(request, index);
  if (request.has_response()) requester_.responses_.on_sent(psns);
  requester_.window_.advance(request, psns);
}

/// The packet `index` of `request` has been sent.
inline void Requester::Sender::note_sent(const SendWqe& request, std::uint32_t index) {
  const std::uint32_t psns = request.has_response() ? request.psn_count - index : 1;
  const bool again = window().were_sent(psns);
  if (again) qp_.engine().counters().retransmitted_pkts.add();
  if (qp_.pacer() != nullptr || qp_.repeats_selectively() || qp_.adaptive_timeout() != nullptr)
      [[unlikely]] {
    other().tell_sent(request, again);
  }
  advance(request, index, psns);
}

inline TransmitResult Requester::Sender::run(rte_mbuf** packets, std::uint16_t count) {
  TransmitResult result;
  while (result.count < count && may_go_on()) {
    SendWqe* const at_cursor = come_to_packet();
    if (at_cursor == nullptr) break;
    SendWqe& request = *at_cursor;
    const bool is_new = window().is_at_new();
    const std::uint32_t index = is_new ? 0 : window().packet_of(request);
    const std::uint32_t psns = is_new ? psns_of(request) : request.psn_count - index;
    if (!may_send(request, index, psns)) break;
    if (is_new) {
      requester_.window_.number(qp_.send_queue(), request, psns);
      requester_.credits_.number(request);
    }
    if (!requester_.credits_.allows(request, index, packets_in_flight())) break;
    RequestPacket next(qp_, window().cursor(), request, index, window().cursor_psn());
    rte_mbuf* packet =
        next.build(next.is_last() || other().asks_for_acknowledgement(request, index));
    if (packet == nullptr) {
      if (request.failure != WcStatus::success) {
        requester_.settle_front_failure();
        break;
      }
      qp_.engine().counters().tx_no_mbuf.add();
      result.out_of_mbufs = true;
      break;
    }
    result.add(packets, packet, qp_.flow());
    note_sent(request, index);
  }
  return result;
}

}  // namespace rockhopper::roce::rc
