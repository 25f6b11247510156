// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

#include "tests/sim/sim_network.h"

namespace rockhopper::sim {

/// A family of runs of two connection managers; everything else is drawn from the seed.
struct CmProfile {
  const char* name = "";
  NetworkFaults faults;
  bool exact = false;  ///< nobody gives up but for a full backlog
  bool resolve_neighbours = false;
  bool few_retries = false;   ///< so few that they often do not suffice
  bool slow_answers = false;  ///< of the application: longer than peers wait before they repeat
};

/// Sums over runs; shows that the hazards of a profile have been met.
struct CmTotals {
  std::uint64_t runs = 0;
  std::uint64_t connects = 0;
  std::uint64_t established = 0;
  std::uint64_t rejects = 0;  ///< messages
  std::uint64_t disconnected = 0;
  std::uint64_t lookups = 0;
  std::uint64_t answered = 0;        ///< lookups, also by giving up
  std::uint64_t released_early = 0;  ///< before their outcome
  std::uint64_t lost = 0;            ///< packets
  std::uint64_t repeated = 0;        ///< messages
  std::uint64_t duplicates = 0;      ///< messages
  std::uint64_t timeouts = 0;
};

/// One run from one seed. Returns an empty text when all checks held, else what did not.
[[nodiscard]] std::string run_connection_managers(std::uint64_t seed, const CmProfile& profile,
                                                  PoolSet& pools, CmTotals& totals);

}  // namespace rockhopper::sim
