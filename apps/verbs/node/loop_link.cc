// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/verbs/node/loop_link.h"

namespace rockhopper::verbs {
namespace {

constexpr std::size_t kFrames = 1024;  // a power of two

}  // namespace

LoopLink::LoopLink(const rte_ether_addr& mac, std::uint16_t mtu)
    : mac_(mac), mtu_(mtu), ring_(kFrames) {}

LoopLink::~LoopLink() {
  while (head_ != tail_) {
    rte_pktmbuf_free(ring_[head_++ % kFrames]);
  }
}

std::uint16_t LoopLink::rx_burst(rte_mbuf** packets, std::uint16_t count,
                                 std::uint64_t /*now_ns*/) {
  std::uint16_t taken = 0;
  while (taken < count && head_ != tail_) {
    packets[taken++] = ring_[head_++ % kFrames];
  }
  return taken;
}

std::uint16_t LoopLink::tx_burst(rte_mbuf** packets, std::uint16_t count,
                                 std::uint64_t /*now_ns*/) {
  for (std::uint16_t i = 0; i < count; ++i) {
    if (tail_ - head_ == kFrames) {
      rte_pktmbuf_free(packets[i]);
    } else {
      ring_[tail_++ % kFrames] = packets[i];
    }
  }
  return count;
}

}  // namespace rockhopper::verbs
