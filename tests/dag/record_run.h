// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

#include "tests/sim/sim_network.h"

namespace rockhopper::sim {

struct RecordProfile {
  const char* name;
  NetworkFaults faults{};
  unsigned servers = 1;
  unsigned clients = 4;
  unsigned keys = 60;
  std::uint64_t operations = 4000;  ///< of all clients together
  unsigned hash_bits = 64;
  std::uint32_t entries = 4096;  ///< of a client's own map
  std::uint32_t contexts = 256;  ///< of sessions: few make connections end
  std::uint16_t dcis = 8;
  std::uint64_t memory_bytes = 256 << 10;
  std::uint64_t lease_ns = 1'000'000;
  std::uint64_t delay_ns = 1000;  ///< of the path
  std::uint32_t length_max = 3000;
  bool readers_only = false;  ///< one client writes, the others read
  bool stops = false;         ///< servers' applications stand still at times
  bool dies = false;          ///< clients fall silent in the middle of things, and come back
};

struct RecordTotals {
  std::uint64_t runs = 0;
  std::uint64_t reads = 0;
  std::uint64_t updates = 0;
  std::uint64_t creates = 0;
  std::uint64_t erases = 0;
  std::uint64_t adds = 0;
  std::uint64_t stale = 0;
  std::uint64_t torn = 0;
  std::uint64_t false_candidates = 0;
  std::uint64_t hits = 0;
  std::uint64_t lookups = 0;
  std::uint64_t conflicts = 0;
  std::uint64_t overtaken = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t unknown = 0;
  std::uint64_t fenced = 0;
  std::uint64_t locks_released = 0;
  std::uint64_t reused = 0;  ///< grace periods that ended
};

/// One run: empty, or what was wrong.
[[nodiscard]] std::string run_records(std::uint64_t seed, const RecordProfile& profile,
                                      PoolSet& pools, RecordTotals& totals);

}  // namespace rockhopper::sim
