// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>

#include <rte_mbuf.h>

#include "roce/packet_builder.h"
#include "roce/queue_pair.h"
#include "roce/rc/credits.h"
#include "roce/rc/response_window.h"
#include "roce/rc/retry.h"
#include "roce/rc/send_window.h"
#include "roce/requester.h"
#include "roce/wire/packet.h"

namespace rockhopper::roce::rc {

/// The requester of a reliable connection (IBTA vol. 1, 9.7.3 and 9.7.5 to 9.7.8): turns the send
/// queue into request packets, and acknowledgements and responses into completions.
///
/// Sending is a cursor that moves over the send queue (SendWindow). Losing packets moves it back to
/// the oldest unacknowledged PSN; what is behind is then sent again in order, with the PSNs that it
/// had: everything (go-back-N), or what is not passed over (recovery/).
class Requester final : public roce::Requester {
 public:
  explicit Requester(QueuePair& qp);

  void reset(wire::Psn first_psn) override;
  void stop() override;

  [[nodiscard]] TransmitResult transmit(rte_mbuf** packets, std::uint16_t count,
                                        std::uint64_t now_ns) override;
  /// Counts as a loss of what is to be sent.
  void on_unreachable(std::uint64_t now_ns) override;
  void on_response(const RxPacket& packet, std::uint64_t now_ns) override;

  void prefetch_requests() const override { qp_.send_queue_.prefetch(window_.cursor()); }

  [[nodiscard]] wire::Psn next_psn() const override { return window_.next_psn(); }
  [[nodiscard]] bool drained() const override { return window_.is_drained(qp_.send_queue_); }

  // For a requester that stands on this one and connects it to one peer after another.
  /// Requests from `sequence` of the send queue on are not for this peer.
  void set_limit(std::uint64_t sequence) { window_.set_limit(sequence); }
  /// Begins anew with the oldest request, which gets `first_psn`. `executed`: the peer that was
  /// has executed what has a PSN before it, and nothing else; nothing: it is not known. What must
  /// not be executed twice completes in its turn: as executed, or with outcome_unknown (DC-27).
  void restart(wire::Psn first_psn, std::optional<wire::Psn> executed);
  /// Nothing is waited for until transmit() is called again, which sends all that is outstanding
  /// anew, with the PSNs that it had.
  void pause();
  /// The oldest request fails, and the queue pair with it. Requires that there is one.
  void fail(WcStatus status) { fail_front(status); }

 private:
  // requester_send.cc
  [[nodiscard]] SendWqe* next_request();
  [[nodiscard]] bool may_start(const SendWqe& wqe, std::uint32_t psns) const;
  [[nodiscard]] std::uint32_t packets_in_flight() const;
  [[nodiscard]] std::uint32_t most_unacked() const;
  [[nodiscard]] std::uint32_t packets_allowed() const;
  [[nodiscard]] bool asks_for_acknowledgement(const SendWqe& wqe) const;
  void add_rare_headers(const SendWqe& wqe, const wire::OpcodeInfo& info, wire::Headers& headers);
  void note_sent(const SendWqe& wqe, bool again);
  [[nodiscard]] bool is_fenced(const SendWqe& wqe) const;
  [[nodiscard]] wire::Xaeth masked_atomic_header(const SendWqe& wqe);
  [[nodiscard, gnu::always_inline]] rte_mbuf* build_packet(SendWqe& wqe);
  void move_cursor(const SendWqe& wqe);
  void step_cursor(const SendWqe& wqe);

  // requester_response.cc
  void take_answer(const RxPacket& packet, std::uint64_t now_ns);
  void on_acknowledge(const RxPacket& packet, std::uint64_t now_ns);
  [[gnu::always_inline]] void on_read_response(const RxPacket& packet, std::uint64_t now_ns);
  [[gnu::always_inline]] void on_atomic_acknowledge(const RxPacket& packet, std::uint64_t now_ns);
  [[nodiscard]] std::uint32_t acknowledge(std::uint32_t count, std::uint64_t now_ns);
  [[nodiscard]] SendWqe* await_response(const RxPacket& packet, std::uint64_t now_ns);
  void advance(std::uint32_t count, std::uint64_t now_ns);
  void note_progress();
  void move_unacked(std::uint32_t count, std::uint64_t now_ns);
  void note_acknowledged(std::uint32_t count, std::uint64_t now_ns);
  void complete_front(WcStatus status);
  void retire_front(WcStatus status);
  void settle_front_failure();
  void on_nak(wire::NakCode code, std::uint64_t now_ns);
  void on_rnr_nak(std::uint8_t timer_code, std::uint64_t now_ns);
  void take_credits(const wire::Aeth& aeth);
  void fail_front(WcStatus status);

  // requester_lock.cc
  void on_lock_response(const RxPacket& packet, std::uint64_t now_ns);
  void on_sign_of_life(const RxPacket& packet, std::uint64_t now_ns);
  void begin_scope(const wire::Lkaeth& answer);
  void lose_scope(wire::LockCause cause);
  void fail_scope(WcStatus status) const;
  [[nodiscard]] WcStatus complete_in_scope(const SendWqe& wqe, WcStatus status);

  // requester_early.cc
  void note_received(wire::Psn psn);
  void on_selective_acknowledge(const RxPacket& packet, std::uint64_t now_ns);
  void pass_over();
  [[nodiscard]] bool can_hold_responses(std::uint32_t psns) const;
  [[nodiscard]] bool hold_response(const RxPacket& packet);
  [[nodiscard]] std::optional<wire::Psn> next_response() const;
  void take_held_responses(std::uint64_t now_ns);

  // requester_local.cc
  [[nodiscard]] bool run_local_requests();
  [[nodiscard]] bool execute(SendWqe& wqe);
  [[nodiscard]] bool may_execute(const SendWqe& wqe) const;
  void retire_executed();

  // requester_restart.cc
  [[nodiscard]] bool is_sent(const SendWqe& wqe) const;
  [[nodiscard]] static bool may_be_executed(const SendWqe& wqe, std::optional<wire::Psn> executed);
  void settle_scopes(std::optional<wire::Psn> executed);
  void settle(SendWqe& wqe, std::optional<wire::Psn> executed) const;

  // requester_retry.cc
  void go_back(LossRecovery::Reason reason = LossRecovery::Reason::everything);
  void go_back_for_responses();
  void implied_nak(std::uint32_t distance, std::uint64_t now_ns, bool held = true);
  /// False: retry_cnt is used up and the queue pair has failed.
  [[nodiscard]] bool use_retry();
  [[nodiscard]] std::uint64_t timeout_ns() const;
  void restart_ack_timer(std::uint64_t now_ns);
  [[nodiscard]] bool is_early_timeout();
  void note_loss(bool by_timeout, std::uint64_t now_ns);
  void on_timer(std::uint64_t now_ns);
  void on_ack_timeout(bool unreachable, std::uint64_t now_ns);

  /// The lock scope whose acquire was the last to be answered.
  struct ScopeProgress {
    lock::ScopeResult* result = nullptr;  ///< the caller's; may be null
    std::uint32_t accesses = 0;           ///< complete
    bool failed = false;                  ///< what completes from now on was not executed
  };

  QueuePair& qp_;
  SendWindow window_;
  ResponseWindow responses_;
  Credits credits_;
  Retry retry_;
  ScopeProgress scope_;
};

/// Over the packet at the cursor: it is sent.
inline void Requester::step_cursor(const SendWqe& wqe) {
  const std::uint32_t psns = window_.psns_of_packet(wqe);
  credits_.on_sent(wqe, window_.packet_of(wqe));
  if (wqe.has_response()) {
    responses_.on_sent(psns);
  }
  window_.advance(wqe, psns);
}

}  // namespace rockhopper::roce::rc
