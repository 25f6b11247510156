// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/sim/nic.h"

#include "stack/net/pfc_frame.h"
#include "stack/net/traffic_class.h"

namespace rockhopper::stack::sim {

void Nic::set_listener(NicListener* listener) {
  listener_ = listener;
  incoming_->set_receiver(listener == nullptr ? nullptr : this);
}

void Nic::attach(Channel& outgoing, Channel& incoming) {
  outgoing_ = &outgoing;
  incoming_ = &incoming;
  outgoing.set_sender(this);
}

std::uint16_t Nic::rx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  const std::uint16_t arrived = incoming_->receive(packets, count, now_ns);
  std::uint16_t kept = 0;
  for (std::uint16_t i = 0; i < arrived; ++i) {
    if (const auto pause = net::parse_pfc(packets[i])) {
      outgoing_->obey(*pause, now_ns);
      counters_.pfc_received.add();
      rte_pktmbuf_free(packets[i]);
    } else {
      packets[kept++] = packets[i];
    }
  }
  counters_.received.add(kept);
  return kept;
}

std::uint16_t Nic::tx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  std::uint16_t sent = 0;
  while (sent < count && outgoing_->has_room(packets[sent]->pkt_len)) {
    rte_mbuf* packet = packets[sent++];
    outgoing_->send(packet, net::priority_of(packet, priorities_), now_ns);
  }
  counters_.sent.add(sent);
  counters_.backpressure.add(static_cast<std::uint64_t>(count - sent));
  refused_ = sent < count;
  return sent;
}

void Nic::on_departure(const rte_mbuf* /*packet*/, std::uint64_t now_ns) {
  // With half of the queue free, so that a full one does not mean a turn for each packet.
  const net::OutputPort& queue = outgoing_->output();
  if (refused_ && listener_ != nullptr && 2 * queue.queued_bytes() <= queue.config().queue_bytes) {
    listener_->on_room(now_ns);
  }
}

}  // namespace rockhopper::stack::sim
