// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/sim/selective_drop.h"

#include <optional>

#include "stack/net/traffic_class.h"
#include "stack/roce_locator.h"

namespace rockhopper::sim {
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
    if (lost) {
      rte_pktmbuf_free(packets[i]);
      ++dropped_;
    } else if (inner_.tx_burst(&packets[i], 1, now_ns) == 0) {
      return i;
    }
    offered_ += bth ? 1 : 0;
  }
  return count;
}

}  // namespace rockhopper::sim
