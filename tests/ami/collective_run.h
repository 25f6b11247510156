// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

#include "tests/sim/sim_network.h"

namespace rockhopper::sim {

struct CollectiveProfile {
  const char* name = "";
  bool dynamic_connections = false;
  unsigned min_ranks = 1;
  unsigned max_ranks = 17;
  std::uint32_t collectives = 30;  ///< of each rank
  std::uint16_t max_window = 16;   ///< it is drawn: 2 to this
  std::uint32_t slots = 64;        ///< of a FIFO
  std::uint32_t queue = 16;        ///< of a context
  std::uint64_t max_sleep_ns = 0;  ///< of an application, now and then
  bool second_group = false;       ///< some of the ranks have another communicator besides
  bool broadcasts_only = false;    ///< whose roots may run ahead
  bool deaths = false;             ///< some ranks are gone at some time
  bool cancels = false;            ///< a rank cancels at some time
  bool disagrees = false;          ///< a rank starts something else than the others
  stack::FaultRates rates{};
};

struct CollectiveTotals {
  std::uint64_t runs = 0;
  std::uint64_t started = 0;
  std::uint64_t ended = 0;
  std::uint64_t failed = 0;  ///< ended with an error
  std::uint64_t reductions = 0;
  std::uint64_t long_broadcasts = 0;
  std::uint64_t early = 0;      ///< messages for what was not started there
  std::uint64_t again = 0;      ///< starts refused, as another rank was too far behind
  std::uint64_t overtaken = 0;  ///< collectives that ended before an earlier one
  std::uint64_t syncs = 0;
  std::uint64_t repeated = 0;
  std::uint64_t probes = 0;
  std::uint64_t aborts = 0;  ///< messages that said that a communicator is broken
  std::uint64_t lost = 0;    ///< packets
};

/// Some ranks, each on a host of its own at one switch, that start collectives in the same order.
/// What they saw that must not be; empty: nothing.
[[nodiscard]] std::string run_collectives(std::uint64_t seed, const CollectiveProfile& profile,
                                          PoolSet& pools, CollectiveTotals& totals);

}  // namespace rockhopper::sim
