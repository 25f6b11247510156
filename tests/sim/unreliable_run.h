// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

#include "roce/types.h"
#include "tests/sim/sim_network.h"

namespace rockhopper::sim {

/// A family of runs of UC or UD; everything else is drawn from the seed.
struct UnreliableProfile {
  const char* name = "";
  roce::QpType type = roce::QpType::uc;
  NetworkFaults faults;
  bool exact = false;            ///< every message arrives, once and in order
  bool in_order = false;         ///< what arrives does so once, in the order of posting
  bool scarce_receives = false;  ///< receive requests often come too late
  bool resolve_neighbours = false;
  bool srq = false;  ///< the queue pairs of a node share their receives; UD
};

/// Sums over runs; shows that the hazards of a profile have been met.
struct UnreliableTotals {
  std::uint64_t runs = 0;
  std::uint64_t messages = 0;
  std::uint64_t delivered = 0;
  std::uint64_t twice = 0;    ///< delivered a second time
  std::uint64_t partial = 0;  ///< WRITEs of which only some packets arrived
  std::uint64_t lost = 0;     ///< packets
  std::uint64_t abandoned = 0;
  std::uint64_t out_of_sequence = 0;
  std::uint64_t no_receive = 0;
  std::uint64_t bad_icrc = 0;
  std::uint64_t bad_qkey = 0;
  std::uint64_t limit_events = 0;  ///< of SRQs
};

/// One run from one seed. Returns an empty text when all checks held, else what did not.
[[nodiscard]] std::string run_unreliable(std::uint64_t seed, const UnreliableProfile& profile,
                                         PoolSet& pools, UnreliableTotals& totals);

}  // namespace rockhopper::sim
