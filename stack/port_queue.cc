// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <rte_ethdev.h>

#include "stack/port.h"

namespace rockhopper::stack {
namespace {

std::uint64_t total_bytes(rte_mbuf* const* packets, std::uint16_t count) {
  std::uint64_t bytes = 0;
  for (std::uint16_t i = 0; i < count; ++i) {
    bytes += packets[i]->pkt_len;
  }
  return bytes;
}

}  // namespace

PortQueue::PortQueue(Port& port, std::uint16_t index) : port_(port), index_(index) {}

rte_ether_addr PortQueue::mac() const { return port_.mac(); }
std::uint16_t PortQueue::mtu() const { return port_.mtu(); }

std::uint16_t PortQueue::rx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  std::uint16_t received = 0;
  {
    InterruptGate::Burst burst(port_.gate_);
    if (port_.started_.load(std::memory_order_acquire)) {
      received = rte_eth_rx_burst(port_.port_id_, index_, packets, count);
    }
    burst.moved(received);
  }
  if (received > 0) {
    counters_.rx_packets.add(received);
    counters_.rx_bytes.add(total_bytes(packets, received));
  } else if (port_.reconnection_.is_enabled() && index_ == 0) {
    port_.maintain_link(now_ns);
  }
  return received;
}

PortQueue::Fit PortQueue::fit(rte_mbuf*& packet) {
  if (packet->pkt_len > static_cast<std::uint32_t>(port_.mtu_ + kFrameOverhead)) {
    counters_.tx_oversize.add();
    return Fit::rejected;
  }
  if (packet->nb_segs == 1 || port_.multi_segment_) return Fit::ok;
  rte_mbuf* copy = rte_pktmbuf_alloc(port_.pool());
  if (copy == nullptr) {
    counters_.tx_no_mbuf.add();
    return Fit::no_mbuf;
  }
  // The pool's data room holds a frame of the MTU, or Port::open() would have failed.
  char* to = rte_pktmbuf_append(copy, static_cast<std::uint16_t>(packet->pkt_len));
  for (const rte_mbuf* part = packet; part != nullptr; part = part->next) {
    rte_memcpy(to, rte_pktmbuf_mtod(part, const void*), part->data_len);
    to += part->data_len;
  }
  copy->ol_flags = packet->ol_flags & RTE_MBUF_F_TX_OFFLOAD_MASK;
  copy->tx_offload = packet->tx_offload;
  rte_pktmbuf_free(packet);
  packet = copy;
  counters_.tx_linearised.add();
  return Fit::ok;
}

std::uint16_t PortQueue::transmit(rte_mbuf** packets, std::uint16_t count) {
  const std::uint64_t bytes = total_bytes(packets, count);
  const std::uint16_t sent = rte_eth_tx_burst(port_.port_id_, index_, packets, count);
  counters_.tx_packets.add(sent);
  counters_.tx_bytes.add(bytes -
                         total_bytes(packets + sent, static_cast<std::uint16_t>(count - sent)));
  return sent;
}

std::uint16_t PortQueue::tx_burst(rte_mbuf** packets, std::uint16_t count,
                                  std::uint64_t /*now_ns*/) {
  std::uint16_t done = 0;
  InterruptGate::Burst burst(port_.gate_);
  const bool started = port_.started_.load(std::memory_order_acquire);
  while (started && done < count) {
    Fit next = Fit::ok;
    std::uint16_t end = done;
    while (end < count && (next = fit(packets[end])) == Fit::ok) {
      ++end;
    }
    if (port_.ipv4_checksum_offload_) {
      const std::uint16_t prepared = rte_eth_tx_prepare(port_.port_id_, index_, packets + done,
                                                        static_cast<std::uint16_t>(end - done));
      if (prepared < end - done) {
        counters_.tx_rejected.add();
        next = Fit::rejected;
        end = static_cast<std::uint16_t>(done + prepared);
      }
    }
    done = static_cast<std::uint16_t>(
        done + transmit(packets + done, static_cast<std::uint16_t>(end - done)));
    if (done < end || next != Fit::rejected) break;
    // All before the rejected packet are sent, so it is its turn to go.
    rte_pktmbuf_free(packets[done++]);
  }
  burst.moved(done);
  // Callers come again with what they are handed back: each packet counts once. Before a device has
  // taken any, nobody is there: that is no pressure of ours.
  const auto left = static_cast<std::uint16_t>(count - done);
  const auto counted = static_cast<std::uint16_t>(held_ > done ? held_ - done : 0);
  if (left > counted && counters_.tx_packets.value() > 0) {
    counters_.tx_backpressure.add(static_cast<std::uint64_t>(left - counted));
  }
  held_ = left;
  return done;
}

}  // namespace rockhopper::stack
