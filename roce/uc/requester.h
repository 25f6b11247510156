// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <rte_mbuf.h>

#include "roce/requester.h"
#include "roce/transport_context.h"
#include "roce/wire/shared_psn.h"

namespace rockhopper::roce::uc {

/// The requester of an unreliable connection (IBTA vol. 1, 9.8.2.1). Nothing is acknowledged: a
/// request is complete once its last packet has been handed out, so the one under way is always the
/// front of the send queue.
class Requester final : public roce::Requester {
 public:
  explicit Requester(const TransportContext& qp) : qp_(qp) {}

  void reset(wire::Psn first_psn) override;
  void stop() override;

  [[nodiscard]] TransmitResult transmit(rte_mbuf** packets, std::uint16_t count,
                                        std::uint64_t now_ns) override;
  /// What is queued is lost on the way, as the service allows.
  void on_unreachable(std::uint64_t now_ns) override;

  void prefetch_requests() const override { qp_.send_queue().prefetch(qp_.send_queue().head()); }

  [[nodiscard]] wire::Psn next_psn() const override { return next_psn_; }
  [[nodiscard]] wire::Psn told_psn() const override { return next_psn_; }
  [[nodiscard]] bool drained() const override { return packet_ == 0; }

 private:
  [[nodiscard]] bool can_send() const;
  /// Gives the front request its PSNs, if nothing of it has left. Requires can_send().
  void number_front();
  /// Null: no mbuf is free, or `failure` says what is wrong with the request.
  [[nodiscard]] rte_mbuf* build_packet(const SendWqe& wqe, WcStatus& failure);
  void run_local_request();
  void advance(std::uint32_t packets);

  TransportContext qp_;
  wire::SharedPsn next_psn_;
  std::uint32_t packet_ = 0;  ///< of the front request, to send next
};

}  // namespace rockhopper::roce::uc
