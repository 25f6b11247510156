// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/sim/wire.h"

#include <algorithm>
#include <cassert>

#include "stack/random.h"

namespace rockhopper::stack::sim {

WireEnd::WireEnd(const WireConfig& config, const rte_ether_addr& mac)
    : config_(config), mac_(mac), incoming_(config.queue_packets), random_(config.segment_seed) {}

WireEnd::~WireEnd() {
  for (; size_ > 0; --size_) {
    rte_pktmbuf_free(incoming_[head_].packet);
    head_ = (head_ + 1) % static_cast<std::uint32_t>(incoming_.size());
  }
}

rte_mbuf* WireEnd::take_copy(const rte_mbuf* packet) {
  const std::uint32_t length = packet->pkt_len;
  if (config_.segment_seed == 0) return rte_pktmbuf_copy(packet, config_.pool, 0, UINT32_MAX);

  rte_mbuf* head = nullptr;
  for (std::uint32_t offset = 0; offset < length || head == nullptr;) {
    // Mostly cuts within the headers, where a reader is most likely to overlook one.
    const std::uint64_t longest = random_.below(2) == 0 ? 24 : length;
    const auto piece = std::min<std::uint32_t>(
        static_cast<std::uint32_t>(1 + random_.below(longest + 1)), length - offset);
    rte_mbuf* part = rte_pktmbuf_copy(packet, config_.pool, offset, piece);
    if (part == nullptr || (head != nullptr && rte_pktmbuf_chain(head, part) != 0)) {
      rte_pktmbuf_free(part);
      rte_pktmbuf_free(head);
      return nullptr;
    }
    if (head == nullptr) head = part;
    offset += piece;
  }
  return head;
}

std::uint16_t WireEnd::rx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  std::uint16_t received = 0;
  while (received < count && size_ > 0 && incoming_[head_].arrival_ns <= now_ns) {
    rte_mbuf* packet = incoming_[head_].packet;
    if (config_.pool != nullptr && packet->pkt_len > 0) {
      rte_mbuf* copy = take_copy(packet);
      if (copy == nullptr) {
        counters_.no_mbuf.add();
        break;
      }
      rte_pktmbuf_free(packet);
      packet = copy;
      packet->ol_flags = 0;  // offload requests concern the sender's device
    }
    packets[received++] = packet;
    head_ = (head_ + 1) % static_cast<std::uint32_t>(incoming_.size());
    --size_;
  }
  counters_.received.add(received);
  return received;
}

std::uint16_t WireEnd::tx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) {
  const auto capacity = static_cast<std::uint32_t>(peer_->incoming_.size());
  std::uint16_t sent = 0;
  for (; sent < count && peer_->size_ < capacity; ++sent) {
    const std::uint32_t slot = (peer_->head_ + peer_->size_) % capacity;
    peer_->incoming_[slot] = {packets[sent], now_ns + config_.delay_ns};
    ++peer_->size_;
  }
  counters_.sent.add(sent);
  counters_.backpressure.add(static_cast<std::uint64_t>(count - sent));
  return sent;
}

std::uint64_t WireEnd::next_deadline_ns() const {
  return size_ == 0 ? kNever : incoming_[head_].arrival_ns;
}

Wire::Wire(const WireConfig& config) {
  assert(config.queue_packets > 0);
  for (unsigned i = 0; i < ends_.size(); ++i) {
    WireConfig end = config;
    if (end.segment_seed != 0) end.segment_seed += i;
    // Locally administered addresses, as no vendor's device may have them.
    const rte_ether_addr mac{{0x02, 0, 0, 0, 0, static_cast<std::uint8_t>(i + 1)}};
    ends_[i].reset(new WireEnd(end, mac));
  }
  ends_[0]->peer_ = ends_[1].get();
  ends_[1]->peer_ = ends_[0].get();
}

}  // namespace rockhopper::stack::sim
