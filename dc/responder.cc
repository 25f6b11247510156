// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "dc/responder.h"

#include "dc/endpoint_context.h"
#include "dc/message_packet.h"
#include "dc/targets.h"
#include "roce/wire/cm.h"

namespace rockhopper::dc {

void Responder::reset(wire::Psn first_psn) {
  owes_accept_ = owes_keepalive_ = false;
  inner_.reset(first_psn);
}

void Responder::on_unreachable() {
  owes_accept_ = owes_keepalive_ = false;
  inner_.on_unreachable();
}

void Responder::owe_accept() {
  owes_accept_ = true;
  qp_.schedule();
}

void Responder::owe_keepalive() {
  owes_keepalive_ = true;
  qp_.schedule();
}

roce::TransmitResult Responder::transmit(rte_mbuf** packets, std::uint16_t count) {
  roce::TransmitResult result;
  while (result.count < count && (owes_accept_ || owes_keepalive_)) {
    rte_mbuf* packet = build_owed();
    if (packet == nullptr) {
      result.out_of_mbufs = true;
      return result;
    }
    (owes_accept_ ? owes_accept_ : owes_keepalive_) = false;
    result.add(packets, packet, qp_.flow());
  }
  const std::uint16_t before = result.count;
  result.add(inner_.transmit(packets + before, static_cast<std::uint16_t>(count - before)));
  if (qp_.state() == roce::QpState::err && !inner_.has_replies() && session_ != nullptr) {
    endpoint_.targets->on_failed(*session_);  // the NAK that tells why has left
  }
  return result;
}

rte_mbuf* Responder::build_owed() {
  if (!owes_accept_) {
    return build_message(
        qp_,
        KeepAlive{.answer = true, .session_id = session_->id, .next_psn = inner_.expected_psn()});
  }
  rte_mbuf* packet =
      build_message(qp_, Accept{.mtu_code = wire::cm::mtu_code(bytes(qp_.attributes().path_mtu)),
                                .nonce = session_->nonce,
                                .session_id = session_->id,
                                .expected_psn = inner_.expected_psn(),
                                .lease_us = endpoint_.config.lease_us,
                                .responder_resources = endpoint_.config.responder_resources});
  if (packet != nullptr) endpoint_.counters.tx_accept.add();
  return packet;
}

}  // namespace rockhopper::dc
