// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

#include "tests/sim/sim_network.h"

namespace rockhopper::sim {

/// A family of runs of locks over RC or DC; everything else is drawn from the seed.
struct LockProfile {
  const char* name = "";
  NetworkFaults faults;
  std::uint32_t lease_us = 10'000'000;  ///< of the target
  bool short_limits = false;            ///< tries and waits that often end
  bool selective_repeat = false;
  bool dynamic_connections = false;
  bool mixed = false;      ///< long scopes of any READs and WRITEs, and no others
  bool vanishing = false;  ///< all initiators at once, at some packet, for ever
  std::uint32_t initiators = 8;
  std::uint32_t threads = 2;  ///< of the target
  std::uint32_t scopes = 12;  ///< of each initiator
};

/// Sums over runs; shows that the hazards of a profile have been met.
struct LockTotals {
  std::uint64_t runs = 0;
  std::uint64_t scopes = 0;
  std::uint64_t granted = 0;
  std::uint64_t waited = 0;
  std::uint64_t tries = 0;  ///< scopes that failed for that
  std::uint64_t wait = 0;
  std::uint64_t canceled = 0;
  std::uint64_t expired = 0;
  std::uint64_t foreign_releases = 0;  ///< by who did not hold the lock
  std::uint64_t together = 0;          ///< times that several were seen to hold a lock together
  std::uint64_t vanished = 0;          ///< initiators, with something under way
  std::uint64_t leases = 0;            ///< that ended, with the lock held
  std::uint64_t local = 0;             ///< times that a thread of the target held a lock
  std::uint64_t duplicates = 0;        ///< requests that came again
  std::uint64_t lost = 0;              ///< packets
};

/// One run from one seed: initiators, and threads of the target, use records that are consistent
/// only under their locks. Returns an empty text when all checks held, else what did not.
[[nodiscard]] std::string run_locks(std::uint64_t seed, const LockProfile& profile, PoolSet& pools,
                                    LockTotals& totals);

}  // namespace rockhopper::sim
