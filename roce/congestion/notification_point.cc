// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/congestion/notification_point.h"

#include <cstddef>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "roce/packet_builder.h"

namespace rockhopper::roce {

namespace {

constexpr std::size_t kDestinations = 256;

std::size_t place_of(const stack::IpAddress& address) {
  return XXH3_64bits(address.bytes.data(), address.bytes.size()) % kDestinations;
}

}  // namespace

Engine::NotificationPoint::NotificationPoint(Engine& engine)
    : engine_(engine),
      destinations_(engine.config_.cnp.scope == CnpScope::destination ? kDestinations : 0) {}

void Engine::NotificationPoint::on_marked(QueuePair& qp, std::uint64_t now_ns) {
  const CnpConfig& config = engine_.config_.cnp;
  if (!config.send || qp.cnp_hook_.is_linked()) return;
  std::uint64_t& next_ns = next_cnp_ns(qp);
  if (now_ns < next_ns) return;
  next_ns = now_ns + config.min_time_between_ns;
  waiting_.push_back(qp);
}

std::uint64_t& Engine::NotificationPoint::next_cnp_ns(QueuePair& qp) {
  switch (engine_.config_.cnp.scope) {
    case CnpScope::queue_pair:
      return qp.next_cnp_ns_;
    case CnpScope::port:
      return next_of_port_ns_;
    case CnpScope::destination:
      break;
  }
  const stack::IpAddress& address = qp.attributes_.ah_attr.destination;
  Destination& destination = destinations_[place_of(address)];
  if (destination.address != address) destination = {.address = address};
  return destination.next_cnp_ns;
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
  flow.config.traffic_class = static_cast<std::uint8_t>(engine_.config_.cnp.dscp << 2);
  flow.config.priority = engine_.config_.cnp.priority;
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
