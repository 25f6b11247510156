// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/fault_injector.h"

#include <algorithm>

#include "stack/fault_lane.h"

namespace rockhopper::stack {
namespace {

using FaultCounter = Counter FaultCounters::*;

struct NamedCounter {
  const char* rx_name;
  const char* tx_name;
  FaultCounter counter;
  const char* text;
};

constexpr std::array kCounters = {
    NamedCounter{"rx_offered", "tx_offered", &FaultCounters::offered,
                 "packets that came to the faults in this direction"},
    NamedCounter{"rx_delivered", "tx_delivered", &FaultCounters::delivered,
                 "packets that passed, copies included"},
    NamedCounter{"rx_lost", "tx_lost", &FaultCounters::lost, "packets lost by chance (loss)"},
    NamedCounter{"rx_dropped_nth", "tx_dropped_nth", &FaultCounters::dropped_nth,
                 "each nth packet, dropped (drop_every)"},
    NamedCounter{"rx_dropped_opcode", "tx_dropped_opcode", &FaultCounters::dropped_opcode,
                 "packets dropped for their opcode (drop_opcode)"},
    NamedCounter{"rx_dropped_black_hole", "tx_dropped_black_hole",
                 &FaultCounters::dropped_black_hole,
                 "packets dropped while nothing passes (blackhole)"},
    NamedCounter{"rx_dropped_queue_full", "tx_dropped_queue_full",
                 &FaultCounters::dropped_queue_full,
                 "packets dropped, as too many wait for the rate (queue)"},
    NamedCounter{"rx_corrupted", "tx_corrupted", &FaultCounters::corrupted,
                 "packets with one bit flipped (corrupt)"},
    NamedCounter{"rx_duplicated", "tx_duplicated", &FaultCounters::duplicated,
                 "packets with a copy close behind (dup)"},
    NamedCounter{"rx_late", "tx_late", &FaultCounters::late,
                 "packets with a copy that comes late (late)"},
    NamedCounter{"rx_late_left_out", "tx_late_left_out", &FaultCounters::late_left_out,
                 "such copies left out, as too many waited already"},
    NamedCounter{"rx_reordered", "tx_reordered", &FaultCounters::reordered,
                 "packets held back, so that others overtake them (reorder)"},
    NamedCounter{"rx_copy_failed", "tx_copy_failed", &FaultCounters::copy_failed,
                 "packets passed unharmed, as there was no buffer for a copy"},
};

}  // namespace

FaultInjector::FaultInjector(Link& inner, rte_mempool* pool, const FaultConfig& config)
    : inner_(inner),
      rx_(std::make_unique<FaultLane>(config.rx, config.seed, 0, pool)),
      tx_(std::make_unique<FaultLane>(config.tx, config.seed, 1, pool)) {}

FaultInjector::~FaultInjector() { rte_pktmbuf_free_bulk(tx_due_.data(), tx_due_count_); }

void FaultInjector::begin(std::uint64_t now_ns) {
  if (begun_) return;
  begun_ = true;
  rx_->begin(now_ns);
  tx_->begin(now_ns);
}

void FaultInjector::drain_tx(std::uint64_t now_ns) {
  for (;;) {
    if (tx_due_count_ == 0) tx_due_count_ = tx_->take_due(tx_due_.data(), kBurst, now_ns);
    if (tx_due_count_ == 0) return;
    const std::uint16_t sent = inner_.tx_burst(tx_due_.data(), tx_due_count_, now_ns);
    std::copy(tx_due_.begin() + sent, tx_due_.begin() + tx_due_count_, tx_due_.begin());
    tx_due_count_ = static_cast<std::uint16_t>(tx_due_count_ - sent);
    if (tx_due_count_ > 0) return;
  }
}

std::uint16_t FaultInjector::rx_burst(rte_mbuf** packets, std::uint16_t count,
                                      std::uint64_t now_ns) {
  begin(now_ns);
  drain_tx(now_ns);  // delayed packets leave though nobody sends any more
  std::array<rte_mbuf*, kBurst> arrived;
  const auto wanted =
      static_cast<std::uint16_t>(std::min<std::uint32_t>({count, kBurst, rx_->room()}));
  const std::uint16_t received = inner_.rx_burst(arrived.data(), wanted, now_ns);
  for (std::uint16_t i = 0; i < received; ++i) {
    rx_->offer(arrived[i], now_ns);
  }
  return rx_->take_due(packets, count, now_ns);
}

std::uint16_t FaultInjector::tx_burst(rte_mbuf** packets, std::uint16_t count,
                                      std::uint64_t now_ns) {
  begin(now_ns);
  drain_tx(now_ns);
  const auto taken = static_cast<std::uint16_t>(std::min<std::uint32_t>(count, tx_->room()));
  for (std::uint16_t i = 0; i < taken; ++i) {
    tx_->offer(packets[i], now_ns);
  }
  drain_tx(now_ns);
  return taken;
}

std::uint64_t FaultInjector::next_deadline_ns() const {
  const std::uint64_t deadline_ns = std::min(rx_->next_release_ns(), inner_.next_deadline_ns());
  // Packets that the inner link has refused wait for it, not for a time.
  return tx_due_count_ > 0 ? deadline_ns : std::min(deadline_ns, tx_->next_release_ns());
}

const FaultCounters& FaultInjector::rx_counters() const { return rx_->counters(); }
const FaultCounters& FaultInjector::tx_counters() const { return tx_->counters(); }

void FaultInjector::visit_counters(void (*visit)(void* context, const char* name,
                                                 std::uint64_t value),
                                   void* context) const {
  for (const NamedCounter& named : kCounters) {
    visit(context, named.rx_name, (rx_counters().*named.counter).value());
    visit(context, named.tx_name, (tx_counters().*named.counter).value());
  }
}

void FaultInjector::describe_counters(void (*visit)(void* context, const char* name,
                                                    const char* text),
                                      void* context) {
  for (const NamedCounter& named : kCounters) {
    visit(context, named.rx_name, named.text);
    visit(context, named.tx_name, named.text);
  }
}

}  // namespace rockhopper::stack
