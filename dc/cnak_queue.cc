// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "dc/cnak_queue.h"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "dc/endpoint_context.h"
#include "dc/message_packet.h"
#include "roce/engine.h"
#include "roce/packet_builder.h"
#include "stack/time_units.h"

namespace rockhopper::dc {
namespace {

constexpr std::uint64_t kBurst = 64;

stack::TokenBucket bucket(std::uint32_t per_second) {
  return {kNsPerSecond / std::max(per_second, 1u), kBurst};
}

rte_ether_addr source_station(const rte_mbuf* frame) {
  rte_ether_hdr copy;  // of a frame that begins in small pieces
  return static_cast<const rte_ether_hdr*>(rte_pktmbuf_read(frame, 0, sizeof copy, &copy))
      ->src_addr;
}

}  // namespace

CnakQueue::CnakQueue(EndpointContext& endpoint)
    : endpoint_(endpoint),
      seed_(endpoint.random().next()),
      of_sources_(kBuckets, bucket(endpoint.config.cnaks_per_second)),
      of_all_(bucket(endpoint.config.all_cnaks_per_second)) {}

void CnakQueue::push(const Cnak& cnak, wire::Qpn initiator, const stack::UdpDatagram& datagram,
                     const roce::RxPacket& packet, std::uint64_t now_ns) {
  const std::uint64_t hash =
      XXH3_64bits_withSeed(datagram.source.bytes.data(), datagram.source.bytes.size(), seed_);
  const bool allowed = of_sources_[hash % kBuckets].take(now_ns) && of_all_.take(now_ns);
  const auto suppress = [this] { endpoint_.counters.cnaks_suppressed.add(); };
  if (!allowed || tail_ - head_ == kCapacity) return suppress();
  // The packet's own would not do where both are limited members.
  const auto pkey_index = endpoint_.engine.find_pkey(packet.headers.bth.pkey);
  if (!pkey_index) return suppress();
  entries_[tail_++ % kCapacity] = {
      .cnak = cnak,
      .initiator = initiator,
      .source = packet.headers.bth.destination,
      .av = {.source = datagram.destination, .destination = datagram.source},
      .station = source_station(datagram.packet),
      .pkey = *endpoint_.engine.query_pkey(*pkey_index)};
}

roce::TransmitResult CnakQueue::transmit(rte_mbuf** packets, std::uint16_t count) {
  roce::TransmitResult result;
  while (result.count < count && !empty()) {
    const Entry& entry = entries_[head_++ % kCapacity];
    if (rte_mbuf* packet = build(entry, result)) {
      packets[result.count++] = packet;
      endpoint_.counters.tx_cnak(entry.cnak.reason).add();
    } else {
      endpoint_.counters.cnaks_suppressed.add();
    }
  }
  return result;
}

rte_mbuf* CnakQueue::build(const Entry& entry, roce::TransmitResult& result) const {
  const roce::EngineConfig& config = endpoint_.extension.config();
  stack::Flow flow;
  flow.config =
      roce::flow_config(entry.av, std::uint64_t{entry.source.value} << 24 | entry.initiator.value);
  if (!config.host->resolve_back(flow, entry.station)) return nullptr;
  rte_mbuf* packet =
      build_message(entry.cnak, entry.initiator, [&](wire::Headers& headers, std::uint32_t length) {
        headers.bth.pkey = entry.pkey;
        return roce::PacketBuilder(config.packet_pool, *config.host, flow, headers, length);
      });
  if (packet != nullptr) result.bytes += packet->pkt_len - flow.header_length;
  return packet;
}

}  // namespace rockhopper::dc
