// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <vector>

#include <rte_mbuf.h>

#include "stack/fault_config.h"
#include "stack/fault_injector.h"
#include "stack/random.h"
#include "stack/rate_queue.h"

namespace rockhopper::stack {

/// One direction of a FaultInjector: packets go in, and come out late, altered, twice or never.
/// In order: drops, damage, duplication, rate, delay.
class FaultLane {
 public:
  /// Packets that wait at most, in two per offered one (its duplicate). Memory for them is
  /// allocated as more wait than ever before.
  static constexpr std::uint32_t kCapacity = 8192;
  /// Late copies that wait at most, besides.
  static constexpr std::uint32_t kLateCapacity = 2048;

  /// `direction` tells the random sequences of the two lanes apart. `pool` is not owned.
  FaultLane(const FaultRates& rates, std::uint64_t seed, std::uint64_t direction,
            rte_mempool* pool);
  FaultLane(const FaultLane&) = delete;
  FaultLane& operator=(const FaultLane&) = delete;
  ~FaultLane();

  /// The time that black holes count from. Once, before anything else.
  void begin(std::uint64_t now_ns);

  /// How many packets it takes now.
  [[nodiscard]] std::uint32_t room() const {
    return static_cast<std::uint32_t>((kCapacity + late_waiting_ - waiting_.size()) / 2);
  }
  /// Takes ownership. Requires room().
  void offer(rte_mbuf* packet, std::uint64_t now_ns);
  /// Hands out the packets whose time has come, in order of their times.
  [[nodiscard]] std::uint16_t take_due(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns);
  /// When take_due() has the next; kNever when none waits.
  [[nodiscard]] std::uint64_t next_release_ns() const;
  [[nodiscard]] const FaultCounters& counters() const { return counters_; }

 private:
  struct Waiting {
    std::uint64_t release_ns;
    std::uint64_t number;  ///< of arrival: equal times keep their order
    rte_mbuf* packet;
    bool late;
  };
  struct Later {
    bool operator()(const Waiting& a, const Waiting& b) const {
      return a.release_ns != b.release_ns ? a.release_ns > b.release_ns : a.number > b.number;
    }
  };

  [[nodiscard]] Counter* reason_to_drop(const rte_mbuf* packet, std::uint64_t now_ns);
  [[nodiscard]] bool matches(OpcodeDrop& drop, const rte_mbuf* packet) const;
  [[nodiscard]] bool in_black_hole(std::uint64_t now_ns);
  void schedule_black_hole(std::uint64_t from_ns);
  [[nodiscard]] rte_mbuf* corrupt(rte_mbuf* packet);
  void pass(rte_mbuf* packet, std::uint64_t now_ns, std::uint64_t extra_ns);
  void push(rte_mbuf* packet, std::uint64_t release_ns, bool late);
  void copy_late(const rte_mbuf* packet, std::uint64_t now_ns);

  FaultRates rates_;
  rte_mempool* pool_;
  Random loss_;
  Random corruption_;
  Random duplication_;
  Random lateness_;
  Random reordering_;
  Random jitter_;
  Random black_holes_;  ///< the same sequence in both lanes: a hole swallows both directions

  std::vector<Waiting> waiting_;    ///< a heap, earliest on top; never grows beyond its capacities
  std::uint32_t late_waiting_ = 0;  ///< of them late copies
  std::uint64_t next_number_ = 0;
  std::uint64_t last_release_ns_ = 0;  ///< of packets that keep their order

  std::uint64_t begin_ns_ = 0;
  std::uint64_t hole_begin_ns_ = UINT64_MAX;
  std::uint64_t hole_end_ns_ = UINT64_MAX;

  RateQueue rate_queue_;
  FaultCounters counters_;
};

}  // namespace rockhopper::stack
