// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/uc/requester.h"

#include <algorithm>

#include "roce/packet_builder.h"
#include "roce/segmentation.h"

namespace rockhopper::roce::uc {

void Requester::reset(wire::Psn first_psn) {
  stop();
  next_psn_ = first_psn;
}

void Requester::stop() { packet_ = 0; }

TransmitResult Requester::transmit(rte_mbuf** packets, std::uint16_t count,
                                   std::uint64_t /*now_ns*/) {
  TransmitResult result;
  while (result.count < count && can_send()) {
    WcStatus failure = WcStatus::success;
    if (qp_.send_queue().front().is_local()) {
      run_local_request();
      continue;
    }
    number_front();
    rte_mbuf* packet = build_packet(qp_.send_queue().front(), failure);
    if (failure != WcStatus::success) {
      qp_.fail_send(failure);
      break;
    }
    if (packet == nullptr) {
      qp_.engine().counters().tx_no_mbuf.add();
      result.out_of_mbufs = true;
      break;
    }
    result.add(packets, packet, qp_.flow());
    advance(1);
  }
  return result;
}

void Requester::on_unreachable(std::uint64_t /*now_ns*/) {
  while (can_send()) {
    if (qp_.send_queue().front().is_local()) {
      run_local_request();
      continue;
    }
    number_front();
    const std::uint32_t left = qp_.send_queue().front().psn_count - packet_;
    qp_.engine().counters().unreachable_pkts.add(left);
    advance(left);
  }
}

/// In SQD the message that has begun goes on, nothing new begins.
bool Requester::can_send() const {
  const bool may = qp_.state() == QpState::rts || (qp_.state() == QpState::sqd && packet_ > 0);
  return may && !qp_.send_queue().empty();
}

void Requester::number_front() {
  if (packet_ == 0) {
    SendWqe& wqe = qp_.send_queue().front();
    wqe.first_psn = next_psn_;
    wqe.psn_count = packets_of(wqe.length, bytes(qp_.attributes().path_mtu));
  }
}

rte_mbuf* Requester::build_packet(const SendWqe& wqe, WcStatus& failure) {
  const std::uint32_t mtu = bytes(qp_.attributes().path_mtu);
  const std::uint64_t offset = std::uint64_t{packet_} * mtu;
  const auto length = static_cast<std::uint32_t>(std::min<std::uint64_t>(mtu, wqe.length - offset));
  const bool last = packet_ + 1 == wqe.psn_count;

  wire::Headers headers;
  const wire::Opcode opcode =
      of_service(wire::ServiceClass::uc, opcode_of(wqe.opcode, packet_, wqe.psn_count));
  const wire::OpcodeInfo& info = wire::info(opcode);
  headers.bth.opcode = static_cast<std::uint8_t>(opcode);
  headers.bth.mig_req = true;
  headers.bth.destination = qp_.attributes().dest_qp_num;
  headers.bth.psn = next_psn_;
  headers.bth.solicited = last && takes_receive(wqe.opcode) && (wqe.flags & kSendSolicited) != 0;
  if (info.has(wire::Header::reth)) {
    headers.reth = {.va = wqe.rdma().remote.addr,
                    .rkey = static_cast<std::uint32_t>(wqe.rdma().remote.rkey),
                    .length = wqe.length};
  }
  if (info.has_immediate) headers.imm_dt.data = wqe.imm_data();

  PacketBuilder builder = qp_.start_packet(headers, length);
  if (!builder.ok()) return nullptr;
  if (qp_.append_payload(builder, qp_.send_queue().head(), offset, length) != MemoryStatus::ok) {
    failure = WcStatus::loc_prot_err;
    return nullptr;
  }
  return builder.ok() ? builder.finish() : nullptr;
}

/// The front request changes keys and needs no packet. It comes after all before it have left, but
/// as nothing is acknowledged, they may still be on their way.
void Requester::run_local_request() {
  if (!qp_.execute_local(qp_.send_queue().front())) {
    qp_.fail_send(WcStatus::mw_bind_err);
    return;
  }
  const SendWqe wqe = qp_.send_queue().front();
  qp_.send_queue().pop();
  qp_.complete_send(wqe, WcStatus::success);
}

/// The next `packets` packets of the front request have left, or are as good as lost.
void Requester::advance(std::uint32_t packets) {
  next_psn_ = next_psn_ + packets;
  packet_ += packets;
  const SendWqe wqe = qp_.send_queue().front();
  if (packet_ < wqe.psn_count) return;
  packet_ = 0;
  qp_.send_queue().pop();
  qp_.complete_send(wqe, WcStatus::success);
  if (qp_.state() == QpState::sqd) qp_.on_drained();
}

}  // namespace rockhopper::roce::uc
