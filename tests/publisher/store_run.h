// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

#include "roce/recovery/recovery_config.h"
#include "tests/sim/sim_network.h"

namespace rockhopper::sim {

struct StoreProfile {
  const char* name;
  bool dynamic_connections = false;
  bool selective_repeat = false;
  NetworkFaults faults{};
  unsigned stores = 3;
  unsigned subscribers = 8;
  std::uint64_t ring_bytes = 32768;
  std::uint32_t message_max = 4000;
  std::uint64_t messages = 3000;  ///< of each store
  unsigned pace = 3;              ///< published at a time, of each store, at most
  std::uint64_t interval_ns = 0;  ///< from one time to the next; 0: each turn
  bool pauses = true;             ///< subscribers stop reading at times
  bool watches = false;           ///< half of the subscribers watch, the others poll
  bool leaves = false;            ///< subscribers leave stores and come back
  bool reconnects = false;        ///< connections end and are made anew
  bool restarts = false;          ///< the publisher's stores begin new epochs
  bool multicast = false;         ///< copies besides (PB-13)
};

struct StoreTotals {
  std::uint64_t runs = 0;
  std::uint64_t published = 0;
  std::uint64_t delivered = 0;
  std::uint64_t lost = 0;
  std::uint64_t lapped = 0;
  std::uint64_t torn = 0;  ///< records that were read and not valid
  std::uint64_t restarts = 0;
  std::uint64_t reconnects = 0;
  std::uint64_t rounds = 0;
  std::uint64_t wake_ups = 0;
  std::uint64_t packets_lost = 0;
  std::uint64_t copies_taken = 0;
  std::uint64_t copies_repaired = 0;  ///< messages READ in place of their copies
  std::uint64_t copies_dropped = 0;
};

/// One run: empty, or what was wrong.
[[nodiscard]] std::string run_stores(std::uint64_t seed, const StoreProfile& profile,
                                     PoolSet& pools, StoreTotals& totals);

}  // namespace rockhopper::sim
