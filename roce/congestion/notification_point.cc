// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/congestion/notification_point.h"

#include "roce/packet_builder.h"

namespace rockhopper::roce {

void Engine::NotificationPoint::on_marked(QueuePair& qp, std::uint64_t now_ns) {
  if (!engine_.config_.send_cnps || qp.cnp_hook_.is_linked()) return;
  if (now_ns < qp.next_cnp_ns_) return;
  qp.next_cnp_ns_ = now_ns + engine_.config_.min_time_between_cnps_ns;
  waiting_.push_back(qp);
}

void Engine::NotificationPoint::forget(QueuePair& qp) {
  if (qp.cnp_hook_.is_linked()) qp.cnp_hook_.unlink();
}

TransmitResult Engine::NotificationPoint::transmit(rte_mbuf** packets, std::uint16_t count,
                                                   std::uint64_t now_ns) {
  TransmitResult result;
  while (result.count < count && !empty()) {
    QueuePair& qp = waiting_.front();
    waiting_.pop_front();
    if (rte_mbuf* packet = build(qp, now_ns, result)) {
      packets[result.count++] = packet;
      engine_.counters_.np_cnp_sent.add();
    }
  }
  return result;
}

/// Null without a way to the peer or a free mbuf: as good as lost on the way.
rte_mbuf* Engine::NotificationPoint::build(QueuePair& qp, std::uint64_t now_ns,
                                           TransmitResult& result) {
  // The queue pair's way, in a class of its own.
  stack::Flow flow;
  flow.config = qp.flow_.config;
  flow.config.traffic_class = static_cast<std::uint8_t>(engine_.config_.cnp_dscp << 2);
  if (engine_.config_.host->resolve(flow, now_ns) != stack::Resolution::ready) return nullptr;
  wire::Headers headers;
  headers.bth.opcode = static_cast<std::uint8_t>(wire::Opcode::cnp);
  headers.bth.becn = true;
  headers.bth.pkey = qp.pkey_;
  headers.bth.destination = qp.attributes_.dest_qp_num;
  headers.cnp_reserved = {};
  PacketBuilder builder(engine_.config_.packet_pool, *engine_.config_.host, flow, headers, 0);
  if (!builder.ok()) {
    engine_.counters_.tx_no_mbuf.add();
    return nullptr;
  }
  rte_mbuf* packet = builder.finish();
  result.bytes += packet->pkt_len - flow.header_length;
  return packet;
}

}  // namespace rockhopper::roce
