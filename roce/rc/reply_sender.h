// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <rte_mbuf.h>

#include "roce/rc/responder.h"
#include "roce/transmit_result.h"
#include "roce/transport_context.h"
#include "roce/wire/psn.h"

namespace rockhopper::roce::rc {

/// Sends what is owed, in order: responses first, then a sign of life, then the ACK or NAK that
/// covers all before it. Lives for one call of Responder::transmit().
class Responder::ReplySender {
 public:
  explicit ReplySender(Responder& responder) : responder_(responder), qp_(responder.qp_) {}

  [[nodiscard]] TransmitResult run(rte_mbuf** packets, std::uint16_t count);

 private:
  // Questions.
  [[nodiscard]] bool is_stale_repetition(const Resource& owing) const;
  [[nodiscard]] wire::Psn acknowledged_psn() const;

  // Each returns null if nothing is to be sent after all, or there is no mbuf.
  [[nodiscard]] rte_mbuf* send_next();
  [[nodiscard]] rte_mbuf* send_response();
  [[nodiscard]] rte_mbuf* send_sign_of_life();
  [[nodiscard]] rte_mbuf* send_nak();
  [[nodiscard]] rte_mbuf* send_ack();
  [[nodiscard]] rte_mbuf* build_response(const Resource& owing);
  [[nodiscard]] rte_mbuf* build_read_response(const Resource& owing);
  [[nodiscard]] rte_mbuf* refuse_read(const Resource& owing);

  Responder& responder_;
  TransportContext qp_;
};

}  // namespace rockhopper::roce::rc
