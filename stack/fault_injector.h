// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include <rte_mempool.h>

#include "stack/counter.h"
#include "stack/fault_config.h"
#include "stack/link.h"

namespace rockhopper::stack {

/// What one direction did: offered + duplicated + late = delivered + lost + dropped_* + those that
/// wait.
struct FaultCounters {
  Counter offered;
  Counter delivered;
  Counter lost;
  Counter dropped_nth;
  Counter dropped_opcode;
  Counter dropped_black_hole;
  Counter dropped_queue_full;  ///< over the rate limit's queue
  Counter corrupted;
  Counter duplicated;
  Counter late;
  Counter late_left_out;  ///< as too many waited already
  Counter reordered;
  Counter copy_failed;  ///< no mbuf for a duplicate, a late or a damaged copy: the packet passed
                        ///< unharmed
};

class FaultLane;

/// Impairs the packets of another link, in each direction by its own rates. A seed gives the same
/// faults for the same packets and times, each kind from a random sequence of its own, so that one
/// rate does not change another's choice. Adds no delay and no drop that was not asked for: when
/// its buffer is full it takes fewer packets.
class FaultInjector final : public Link {
 public:
  /// `inner` and `pool` (for duplicates and damaged copies) are not owned.
  FaultInjector(Link& inner, rte_mempool* pool, const FaultConfig& config);
  ~FaultInjector() override;

  [[nodiscard]] std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint64_t next_deadline_ns() const override;
  [[nodiscard]] rte_ether_addr mac() const override { return inner_.mac(); }
  [[nodiscard]] std::uint16_t mtu() const override { return inner_.mtu(); }

  [[nodiscard]] const FaultCounters& rx_counters() const;
  [[nodiscard]] const FaultCounters& tx_counters() const;
  /// All counters, named "rx_lost", "tx_lost" and so on.
  void visit_counters(void (*visit)(void* context, const char* name, std::uint64_t value),
                      void* context) const;
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(void (*visit)(void* context, const char* name, const char* text),
                                void* context);

 private:
  static constexpr std::uint16_t kBurst = 32;
  void begin(std::uint64_t now_ns);
  void drain_tx(std::uint64_t now_ns);

  Link& inner_;
  std::unique_ptr<FaultLane> rx_;
  std::unique_ptr<FaultLane> tx_;
  std::array<rte_mbuf*, kBurst> tx_due_{};  ///< left the lane, not yet taken by inner_
  std::uint16_t tx_due_count_ = 0;
  bool begun_ = false;
};

}  // namespace rockhopper::stack
