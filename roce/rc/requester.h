// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>

#include <rte_mbuf.h>

#include "roce/rc/client_scope.h"
#include "roce/rc/credits.h"
#include "roce/rc/response_window.h"
#include "roce/rc/retry.h"
#include "roce/rc/send_window.h"
#include "roce/requester.h"
#include "roce/transport_context.h"

namespace rockhopper::roce::rc {

/// The requester of a reliable connection (IBTA vol. 1, 9.7.3 and 9.7.5 to 9.7.8): turns the send
/// queue into request packets, and acknowledgements and responses into completions.
///
/// Sending is a cursor that moves over the send queue (SendWindow). Losing packets moves it back to
/// the oldest unacknowledged PSN; what is behind is then sent again in order, with the PSNs that it
/// had: everything (go-back-N), or what is not passed over (recovery/).
///
/// This class joins its parts, each of which has its own state: Sender moves the cursor forward and
/// makes packets, Answer takes what comes back, and both end here: in completing requests, in going
/// back, and in failing.
class Requester final : public roce::Requester {
 public:
  explicit Requester(const TransportContext& qp);

  void reset(wire::Psn first_psn) override;
  void stop() override;

  [[nodiscard]] TransmitResult transmit(rte_mbuf** packets, std::uint16_t count,
                                        std::uint64_t now_ns) override;
  /// Counts as a loss of what is to be sent.
  void on_unreachable(std::uint64_t now_ns) override;
  void on_response(const RxPacket& packet, std::uint64_t now_ns) override;
  [[nodiscard]] bool take_plain(const PlainPacket& packet, std::uint64_t now_ns) override;
  [[nodiscard]] bool take_plain_response(const PlainPacket& packet, std::uint32_t ahead) override;
  void retire_answered(std::uint32_t count, std::uint64_t now_ns) override;

  void prefetch_requests() const override { qp_.send_queue().prefetch(window_.cursor()); }

  [[nodiscard]] wire::Psn next_psn() const override { return window_.next_psn(); }
  [[nodiscard]] wire::Psn told_psn() const override { return window_.unacked_psn(); }
  [[nodiscard]] bool drained() const override { return window_.is_drained(qp_.send_queue()); }

  // For a requester that stands on this one and connects it to one peer after another.
  /// Requests from `sequence` of the send queue on are not for this peer.
  void set_limit(std::uint64_t sequence) { window_.set_limit(sequence); }
  /// Begins anew with the oldest request, which gets `first_psn`, after the connection to the peer
  /// that was is lost. `executed` is what that peer has told: see Settlement.
  void restart(wire::Psn first_psn, std::optional<wire::Psn> executed);
  /// Nothing is waited for until transmit() is called again, which sends all that is outstanding
  /// anew, with the PSNs that it had.
  void pause();
  /// The oldest request fails, and the queue pair with it. Requires that there is one.
  void fail(WcStatus status);

 private:
  class Answer;
  class PlainSender;
  class RequestPacket;
  class Sender;

  // What is acknowledged, and what becomes of the oldest request.
  [[nodiscard]] std::uint32_t acknowledge(std::uint32_t count, std::uint64_t now_ns);
  [[nodiscard]] std::uint32_t retire_burst(std::uint32_t count);
  void retire(std::uint32_t count);
  void acknowledge_front(std::uint32_t count, std::uint64_t now_ns);
  void note_progress();
  void move_unacked(std::uint32_t count, std::uint64_t now_ns);
  void note_acknowledged(std::uint32_t count, std::uint64_t now_ns);
  void complete_front(WcStatus status);
  void retire_front(WcStatus status);
  void retire_executed();
  void settle_front_failure();
  void take_held_responses(std::uint64_t now_ns);
  [[nodiscard]] std::optional<wire::Psn> next_response() const;

  // Losing packets and trying again.
  void go_back(SelectiveRepeat::Reason reason = SelectiveRepeat::Reason::everything);
  void go_back_for_responses();
  void on_implied_nak(std::uint32_t distance, std::uint64_t now_ns, bool held = true);
  [[nodiscard]] bool use_retry();
  [[nodiscard]] std::uint64_t timeout_ns() const;
  void restart_ack_timer(std::uint64_t now_ns);
  [[nodiscard]] bool note_expiry();
  void note_loss(bool by_timeout, std::uint64_t now_ns);
  void on_timer(std::uint64_t now_ns);
  void on_ack_timeout(bool unreachable, std::uint64_t now_ns);

  TransportContext qp_;
  SendWindow window_;
  ResponseWindow responses_;
  Credits credits_;
  Retry retry_;
  ClientScope scope_;
};

}  // namespace rockhopper::roce::rc
