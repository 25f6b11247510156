// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <rte_mbuf.h>

#include "roce/address_handle.h"
#include "roce/requester.h"
#include "roce/transport_context.h"
#include "roce/wire/shared_psn.h"

namespace rockhopper::roce::ud {

/// The requester of unreliable datagrams (IBTA vol. 1, 9.8.3.1): each request is one packet, to a
/// destination of its own, and complete once that has been handed out. Requests leave in order: one
/// whose destination is still looked for holds up those behind it, but no other queue pair.
class Requester final : public roce::Requester {
 public:
  explicit Requester(const TransportContext& qp) : qp_(qp) {}

  void reset(wire::Psn first_psn) override { next_psn_ = first_psn; }
  void stop() override {}

  [[nodiscard]] TransmitResult transmit(rte_mbuf** packets, std::uint16_t count,
                                        std::uint64_t now_ns) override;
  /// Each request has its own way, and transmit() looks for it.
  void on_unreachable(std::uint64_t /*now_ns*/) override {}

  void prefetch_requests() const override { qp_.send_queue().prefetch(qp_.send_queue().head()); }

  [[nodiscard]] wire::Psn next_psn() const override { return next_psn_; }
  [[nodiscard]] wire::Psn told_psn() const override { return next_psn_; }
  [[nodiscard]] bool drained() const override { return true; }

 private:
  /// The front request; false: nothing more can go now.
  [[nodiscard]] bool send_front(rte_mbuf** packets, TransmitResult& result, std::uint64_t now_ns);
  /// Returns null if no mbuf is free, or if `failure` says what is wrong with the request.
  [[nodiscard]] rte_mbuf* build_packet(const SendWqe& wqe, const stack::Flow& flow,
                                       WcStatus& failure);
  void complete_front();

  TransportContext qp_;
  wire::SharedPsn next_psn_;
};

}  // namespace rockhopper::roce::ud
