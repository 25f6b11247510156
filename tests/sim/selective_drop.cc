// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/sim/selective_drop.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>

#include "stack/net/traffic_class.h"
#include "stack/roce_locator.h"

namespace rockhopper::sim {
namespace {

/// Covers the length and all up to the BTH of an untagged packet: behind that come addresses of
/// memory, which are others in each run.
std::uint64_t digest_of(const rte_mbuf* packet) {
  const auto* frame = rte_pktmbuf_mtod(packet, const char*);
  const bool ipv4 = packet->data_len > 12 && frame[12] == 0x08;
  const std::size_t length =
      std::min<std::size_t>(packet->data_len, 14 + (ipv4 ? 20 : 40) + 8 + 12);
  return std::hash<std::string_view>{}({frame, length}) * 31 + packet->pkt_len;
}

}  // namespace

std::uint16_t SelectiveDrop::tx_burst(rte_mbuf** packets, std::uint16_t count,
                                      std::uint64_t now_ns) {
  // One at a time: what the inner link refuses stays the caller's, and keeps its place.
  for (std::uint16_t i = 0; i < count; ++i) {
    const std::optional<stack::BthSummary> bth = stack::read_bth(packets[i]);
    const bool lost = cut_ || offered_ >= cut_from_ ||
                      (bth && (numbers_.contains(offered_) ||
                               (opcodes_.contains(bth->opcode) && rng_.chance(percent_))));
    if (marked_percent_ > 0 && rng_.chance(marked_percent_)) {
      (void)stack::net::mark_congestion_experienced(packets[i]);
    }
    const std::uint64_t digest = digest_of(packets[i]);
    if (lost) {
      rte_pktmbuf_free(packets[i]);
      ++dropped_;
    } else if (inner_.tx_burst(&packets[i], 1, now_ns) == 0) {
      return i;
    }
    digest_ = digest_ * 31 + digest;
    offered_ += bth ? 1 : 0;
  }
  return count;
}

}  // namespace rockhopper::sim
