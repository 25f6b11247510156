// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

#include "dc/dci.h"
#include "tests/sim/sim_network.h"

namespace rockhopper::sim {

/// A family of runs of dynamic connections; everything else is drawn from the seed.
struct DcProfile {
  const char* name = "";
  NetworkFaults faults;
  dc::Handshake handshake = dc::Handshake::automatic;
  bool connect_with_data = true;  ///< some initiators do, where the handshake is not full
  std::uint32_t contexts = 64;    ///< responder contexts of the targets
  std::uint64_t tombstone_ns = 1'000'000'000;
  std::uint32_t lease_us = 2'000'000;  ///< of the target
  bool scarce_receives = false;        ///< receive requests often come too late
  bool one_kind = false;               ///< FETCH_ADDs only
  bool no_unknown = false;             ///< no request may end with an unknown outcome
  bool resolve_neighbours = false;
  roce::CongestionConfig congestion{};
};

/// Sums over runs; shows that the hazards of a profile have been met.
struct DcTotals {
  std::uint64_t runs = 0;
  std::uint64_t messages = 0;
  std::uint64_t unknown = 0;  ///< requests with an unknown outcome
  std::uint64_t connects = 0;
  std::uint64_t connects_with_data = 0;  ///< of these
  std::uint64_t accepts = 0;
  std::uint64_t sessions = 0;
  std::uint64_t evicted = 0;
  std::uint64_t expired = 0;
  std::uint64_t restarts = 0;
  std::uint64_t lost_sessions = 0;
  std::uint64_t ghosts = 0;  ///< connects and requests of sessions that are over
  std::uint64_t no_context = 0;
  std::uint64_t lost = 0;      ///< packets
  std::uint64_t notified = 0;  ///< CNPs that arrived
  std::uint64_t slowed = 0;    ///< requests that completed while their stream was limited
};

/// One run from one seed. Returns an empty text when all checks held, else what did not.
[[nodiscard]] std::string run_dc(std::uint64_t seed, const DcProfile& profile, PoolSet& pools,
                                 DcTotals& totals);

}  // namespace rockhopper::sim
