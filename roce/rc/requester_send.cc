// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Sending requests: which packet is next, whether it may go, what it looks like.
#include <algorithm>
#include <cassert>

#include "roce/congestion/pacer.h"
#include "roce/engine.h"
#include "roce/rc/requester.h"
#include "roce/segmentation.h"

namespace rockhopper::roce::rc {
namespace {

using wire::Opcode;

/// These headers are carried by requests that are no SEND, WRITE, READ, or atomic of plain RC.
constexpr wire::HeaderSet kRareHeaders =
    wire::Header::xrceth | wire::Header::feth | wire::Header::xaeth | wire::Header::lketh;

}  // namespace

/// READs and atomics before it have to be answered first.
bool Requester::is_fenced(const SendWqe& wqe) const {
  return (wqe.flags & kSendFence) != 0 && !responses_.empty();
}

inline bool Requester::may_start(const SendWqe& wqe, std::uint32_t psns) const {
  if (is_fenced(wqe)) {
    return false;
  }
  if (!wqe.has_response()) {
    return true;
  }
  // No scope is stopped half-way by what may be outstanding after a loss.
  const bool goes_on = wqe.in_scope() || wqe.opcode == WrOpcode::lock_cancel;
  return responses_.has_room(qp_.attributes_.max_rd_atomic, !goes_on) &&
         (qp_.recovery_ == nullptr || can_hold_responses(psns));
}

/// Request packets sent and not acknowledged. The responses to READs and atomics do not count.
inline std::uint32_t Requester::packets_in_flight() const {
  const std::uint32_t sent = window_.cursor_ahead();
  assert(sent >= responses_.psns());
  return sent - responses_.psns();
}

/// Request packets that may be unacknowledged, whatever the congestion control says.
inline std::uint32_t Requester::most_unacked() const {
  const std::uint32_t most = qp_.engine_.config_.max_unacked_packets;
  return qp_.repeats_selectively() ? std::min(most, qp_.recovery_->config().selective_repeat.window)
                                   : most;
}

/// Request packets that may be unacknowledged.
inline std::uint32_t Requester::packets_allowed() const {
  const std::uint32_t most = most_unacked();
  return qp_.pacer_ == nullptr ? most : std::min(most, qp_.pacer_->control().window_packets());
}

wire::Xaeth Requester::masked_atomic_header(const SendWqe& wqe) {
  const SendWqeExtension& masks = qp_.extension(window_.cursor());
  const bool swap = wqe.opcode == WrOpcode::masked_atomic_cmp_and_swp;
  return {.subtype = swap ? wire::Xaeth::kMaskedCompareSwap : wire::Xaeth::kMaskedFetchAdd,
          .reserved24 = 0,
          .rkey = wqe.rkey,
          .va = wqe.remote_addr,
          .compare = swap ? wqe.compare_add : 0,
          .compare_mask = swap ? masks.compare_add_mask : 0,
          .swap_add = swap ? wqe.swap : wqe.compare_add,
          .mask = swap ? masks.swap_mask : masks.compare_add_mask};
}

/// Those that only some requests have, and our own.
void Requester::add_rare_headers(const SendWqe& wqe, const wire::OpcodeInfo& info,
                                 wire::Headers& headers) {
  if (info.has(wire::Header::xrceth)) {
    headers.xrceth = {.reserved8 = 0,
                      .xrc_srq = wire::Qpn{qp_.extension(window_.cursor()).remote_srqn}};
  }
  if (info.has(wire::Header::feth)) {
    const FlushInfo flush = wqe.flush();
    headers.feth = {.reserved26 = 0,
                    .selectivity_level = flush.selectivity_level,
                    .placement_type = flush.placement_type};
  }
  if (info.has(wire::Header::xaeth)) {
    headers.xaeth = masked_atomic_header(wqe);
  }
  if (info.has(wire::Header::lketh)) {
    headers.lketh = qp_.lock_wqe(window_.cursor()).header;
    headers.lketh.timeout = qp_.attributes_.timeout;
  }
}

/// For a packet that does not end its request.
bool Requester::asks_for_acknowledgement(const SendWqe& wqe) const {
  const std::uint32_t ack_interval = std::max(1u, most_unacked() / 2);
  // What is held behind a packet that is sent again may not ask for its acknowledgement.
  const bool closes_gap = qp_.repeats_selectively() && window_.is_going_over();
  return window_.packet_of(wqe) % ack_interval == ack_interval - 1 || credits_.is_limited(wqe) ||
         closes_gap || (qp_.pacer_ != nullptr && qp_.pacer_->control().uses_acks());
}

inline rte_mbuf* Requester::build_packet(SendWqe& wqe) {
  const std::uint32_t mtu = bytes(qp_.attributes_.path_mtu);
  const std::uint32_t index = window_.packet_of(wqe);
  const std::uint64_t offset = std::uint64_t{index} * mtu;
  const bool last = wqe.has_response() || index + 1 == wqe.psn_count;

  wire::Headers headers;
  const Opcode opcode = qp_.service_opcode(opcode_of(wqe.opcode, index, wqe.psn_count));
  const wire::OpcodeInfo& info = wire::info(opcode);
  headers.bth.opcode = static_cast<std::uint8_t>(opcode);
  headers.bth.mig_req = true;  // as RNICs send it; a path is always in the migrated state
  headers.bth.destination = qp_.attributes_.dest_qp_num;
  headers.bth.psn = window_.cursor_psn();
  headers.bth.solicited = last && takes_receive(wqe.opcode) && (wqe.flags & kSendSolicited) != 0;
  headers.bth.ack_request = last || asks_for_acknowledgement(wqe);
  if (info.has(wire::Header::reth)) {
    // A READ that has been answered in part is asked for from where it stopped.
    const auto done = static_cast<std::uint32_t>(offset);
    headers.reth = {.va = wqe.remote_addr + done, .rkey = wqe.rkey, .length = wqe.length - done};
  }
  if (info.has(wire::Header::atomic_eth)) {
    const bool swap = wqe.opcode == WrOpcode::atomic_cmp_and_swp;
    headers.atomic_eth = {.va = wqe.remote_addr,
                          .rkey = wqe.rkey,
                          .swap_add = swap ? wqe.swap : wqe.compare_add,
                          .compare = swap ? wqe.compare_add : 0};
  }
  if (info.has(kRareHeaders)) [[unlikely]] {
    add_rare_headers(wqe, info, headers);
  }
  headers.imm_dt.data = wqe.imm_or_inv;
  headers.ieth.rkey = wqe.imm_or_inv;

  const auto length =
      info.has_payload
          ? static_cast<std::uint32_t>(std::min<std::uint64_t>(mtu, wqe.length - offset))
          : 0;
  PacketBuilder builder = qp_.start_packet(headers, length);
  if (!builder.ok()) {
    return nullptr;
  }
  if (qp_.append_payload(builder, window_.cursor(), offset, length) != MemoryStatus::ok) {
    wqe.failure = WcStatus::loc_prot_err;
    return nullptr;
  }
  return builder.ok() ? builder.finish() : nullptr;
}

/// For those who measure round trips or recover from losses in a way of their own.
void Requester::note_sent(const SendWqe& wqe, bool again) {
  const wire::Psn psn = window_.cursor_psn();
  if (qp_.pacer_ != nullptr && !wqe.has_response()) {
    qp_.pacer_->rtt().on_sent(psn, again, qp_.engine_.now_ns_);
  }
  if (qp_.recovery_ != nullptr) {
    qp_.recovery_->on_sent(psn, again);
    // How long a lock is waited for says nothing of the path.
    RetransmissionTimeout* timeout = qp_.recovery_->timeout();
    if (timeout != nullptr && !wqe.is_lock() && !wqe.in_scope()) {
      timeout->on_sent(psn, again, qp_.engine_.now_ns_);
    }
  }
}

inline void Requester::move_cursor(const SendWqe& wqe) {
  EngineCounters& counters = qp_.engine_.counters_;
  const std::uint32_t end = window_.cursor_ahead() + window_.psns_of_packet(wqe);
  const bool again = end <= window_.sent_ahead();
  if (again) {
    counters.retransmitted_pkts.add();
  }
  if (qp_.pacer_ != nullptr || qp_.recovery_ != nullptr) [[unlikely]] {
    note_sent(wqe, again);
  }
  step_cursor(wqe);
}

/// The request whose packet may go next; null if none may.
inline SendWqe* Requester::next_request() {
  const QpState state = qp_.state();
  if ((state != QpState::rts && state != QpState::sqd) || retry_.is_rnr_wait() ||
      window_.is_at_end(qp_.send_queue_)) {
    return nullptr;
  }
  if (qp_.recovery_ != nullptr) [[unlikely]] {
    pass_over();
    if (window_.is_at_end(qp_.send_queue_)) {
      return nullptr;
    }
  }
  SendWqe* next = &qp_.send_queue_.at(window_.cursor());
  if (next->needs_no_packet()) [[unlikely]] {
    if (!run_local_requests() || window_.is_at_end(qp_.send_queue_)) {
      return nullptr;
    }
    next = &qp_.send_queue_.at(window_.cursor());
  }
  SendWqe& wqe = *next;
  if (wqe.failure != WcStatus::success) {
    return nullptr;  // it fails in its turn, and nothing behind it is sent
  }
  const bool is_new = window_.is_at_new();
  const std::uint32_t index = is_new ? 0 : window_.packet_of(wqe);
  std::uint32_t psns = wqe.psn_count - index;  // from there to its end
  if (is_new) {
    if (state == QpState::sqd) {
      return nullptr;
    }
    psns = wqe.has_response() && !wqe.is_read()
               ? 1
               : packets_of(wqe.length, bytes(qp_.attributes_.path_mtu));
    if (!window_.has_room(psns)) {
      return nullptr;
    }
  }
  if (wqe.has_response()) {
    if (!may_start(wqe, psns)) {
      return nullptr;
    }
  } else {
    if (index == 0 && !may_start(wqe, psns)) {
      return nullptr;
    }
    // What belongs to a scope whose acquire has left must follow: the target may wait for it.
    if (packets_in_flight() >= packets_allowed() && !wqe.in_scope()) {
      return nullptr;
    }
  }
  if (is_new) {
    window_.number(qp_.send_queue_, wqe, psns);
    credits_.number(wqe);
  }
  return credits_.allows(wqe, index, packets_in_flight()) ? next : nullptr;
}

TransmitResult Requester::transmit(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  TransmitResult result;
  retry_.on_reachable();
  while (result.count < count) {
    SendWqe* const next = next_request();
    if (next == nullptr) {
      break;
    }
    SendWqe& wqe = *next;
    rte_mbuf* packet = build_packet(wqe);
    if (packet == nullptr) {
      if (wqe.failure != WcStatus::success) {
        settle_front_failure();
        break;
      }
      qp_.engine_.counters_.tx_no_mbuf.add();
      result.out_of_mbufs = true;
      break;
    }
    result.add(packets, packet, qp_.flow_);
    move_cursor(wqe);
  }
  if (window_.sent_ahead() > 0 && retry_.is_idle()) {
    restart_ack_timer(now_ns);
  }
  return result;
}

}  // namespace rockhopper::roce::rc
