// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/ud/requester.h"

#include "roce/packet_builder.h"

namespace rockhopper::roce::ud {

using wire::Opcode;

TransmitResult Requester::transmit(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  TransmitResult result;
  while (result.count < count && qp_.state() == QpState::rts && !qp_.send_queue().empty() &&
         send_front(packets, result, now_ns)) {
  }
  return result;
}

bool Requester::send_front(rte_mbuf** packets, TransmitResult& result, std::uint64_t now_ns) {
  const EngineContext engine = qp_.engine();
  const SendWqe& wqe = qp_.send_queue().front();
  AddressHandle* ah = engine.find_ah(wqe.datagram().ah_id);
  if (ah == nullptr) {
    qp_.fail_send(WcStatus::loc_qp_op_err);
    return false;
  }
  if (wqe.length > engine.max_path_mtu()) {
    // No packet and no error (IBTA vol. 1, C10-93.1.1).
    engine.counters().overlong_datagrams.add();
    complete_front();
    return true;
  }
  switch (engine.config().host->resolve(ah->flow(), now_ns)) {
    case stack::Resolution::ready:
      break;
    case stack::Resolution::pending:
      result.unresolved = true;
      return false;
    case stack::Resolution::unreachable:
      // As good as lost on the way, which the service allows.
      engine.counters().unreachable_pkts.add();
      next_psn_ = next_psn_ + 1;
      complete_front();
      return true;
  }
  WcStatus failure = WcStatus::success;
  rte_mbuf* packet = build_packet(wqe, ah->flow(), failure);
  if (failure != WcStatus::success) {
    qp_.fail_send(failure);
    return false;
  }
  if (packet == nullptr) {
    engine.counters().tx_no_mbuf.add();
    result.out_of_mbufs = true;
    return false;
  }
  result.add(packets, packet, ah->flow());
  next_psn_ = next_psn_ + 1;
  complete_front();
  return true;
}

rte_mbuf* Requester::build_packet(const SendWqe& wqe, const stack::Flow& flow, WcStatus& failure) {
  const Opcode opcode = wqe.opcode == WrOpcode::send_with_imm ? Opcode::ud_send_only_with_immediate
                                                              : Opcode::ud_send_only;
  const SendWqe::Datagram& datagram = wqe.datagram();
  const bool own_qkey = (datagram.remote_qkey & kOwnQkey) != 0;
  wire::Headers headers;
  headers.bth.opcode = static_cast<std::uint8_t>(opcode);
  headers.bth.mig_req = true;
  headers.bth.destination = datagram.remote_qpn;
  // Queue pair 1 serves all partitions: there the request says which.
  headers.bth.pkey =
      qp_.number() == wire::kGsiQpn ? *qp_.engine().query_pkey(datagram.pkey_index) : qp_.pkey();
  headers.bth.psn = next_psn_;
  headers.bth.solicited = (wqe.flags & kSendSolicited) != 0;
  headers.deth = {.qkey = own_qkey ? qp_.attributes().qkey : datagram.remote_qkey,
                  .reserved8 = 0,
                  .source = qp_.number()};
  headers.imm_dt.data = datagram.imm_data;

  PacketBuilder builder(qp_.engine().config().packet_pool, *qp_.engine().config().host, flow,
                        headers, wqe.length);
  if (!builder.ok()) return nullptr;
  if (qp_.append_payload(builder, qp_.send_queue().head(), 0, wqe.length) != MemoryStatus::ok) {
    failure = WcStatus::loc_prot_err;
    return nullptr;
  }
  return builder.ok() ? builder.finish() : nullptr;
}

void Requester::complete_front() {
  const SendWqe wqe = qp_.send_queue().front();
  qp_.send_queue().pop();
  qp_.complete_send(wqe, WcStatus::success);
}

}  // namespace rockhopper::roce::ud
