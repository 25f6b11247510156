// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Clients that read, update, create, delete and move a few records at the same time, under seeded
// faults: what is read is one write of that key, whole, not older than what was known before, and
// not of a record that had been deleted (DG-4 to DG-9, DG-15 to DG-20, DG-30 to DG-32).
#include "tests/dag/record_run.h"

#include <cinttypes>
#include <cstdio>

#include <gtest/gtest.h>

#include "tests/sim/seeded_runs.h"

namespace rockhopper::sim {
namespace {

constexpr std::uint64_t kSeeds = 1'000;
/// Beyond what repeating lost packets takes.
constexpr std::uint64_t kLongLeaseNs = 40'000'000;

RecordTotals run_profile(const RecordProfile& profile, std::uint64_t share) {
  RecordTotals t;
  const double seconds = run_seeds(profile.name, seeds_or(kSeeds), share, [&](std::uint64_t seed) {
    return run_records(seed, profile, pools(), t);
  });
  std::printf("%s: %" PRIu64 " runs in %.1f s, reads %" PRIu64 ", updates %" PRIu64
              ", creates %" PRIu64 ", erases %" PRIu64 ", adds %" PRIu64 "; hits %" PRIu64
              ", lookups %" PRIu64 ", stale %" PRIu64 ", torn %" PRIu64 ", other keys %" PRIu64
              ", locked %" PRIu64 ", overtaken %" PRIu64 ", timed out %" PRIu64 ", unknown %" PRIu64
              ", fenced %" PRIu64 ", unlocked %" PRIu64 ", grace %" PRIu64 "\n",
              profile.name, t.runs, seconds, t.reads, t.updates, t.creates, t.erases, t.adds,
              t.hits, t.lookups, t.stale, t.torn, t.false_candidates, t.conflicts, t.overtaken,
              t.timeouts, t.unknown, t.fenced, t.locks_released, t.reused);
  return t;
}

// DG-15, DG-19, DG-20, DG-30, DG-31, DG-32: updates, deletes and re-creates with moving sizes.
TEST(RecordSimulation, Everything) {
  const RecordTotals totals = run_profile({.name = "everything", .delay_ns = 20'000}, 10);
  expect_met(totals.stale);
  expect_met(totals.conflicts);
  expect_met(totals.reused);
  expect_met(totals.adds);
}

// DG-32: READs whose responses leave in packets while one writer updates few records again and
// again.
TEST(RecordSimulation, ReadersRaceWithAWriter) {
  const RecordTotals totals = run_profile({.name = "a writer",
                                           .faults = kBadPath,
                                           .keys = 2,
                                           .operations = 2500,
                                           .memory_bytes = 512 << 10,
                                           .lease_ns = kLongLeaseNs,
                                           .length_max = 7000,
                                           .readers_only = true},
                                          5);
  expect_met(totals.torn);
}

// DG-19, DG-30, DG-32.
TEST(RecordSimulation, BadPath) {
  const RecordTotals totals = run_profile(
      {.name = "bad path", .faults = kBadPath, .memory_bytes = 1 << 20, .lease_ns = kLongLeaseNs},
      20);
  expect_met(totals.stale);
}

// DG-6, DG-7, DG-8: with 8 bits of the hash nearly every lookup meets other keys.
TEST(RecordSimulation, EightBits) {
  const RecordTotals totals = run_profile({.name = "8 bits",
                                           .keys = 2000,
                                           .operations = 12'000,
                                           .hash_bits = 8,
                                           .memory_bytes = 4 << 20,
                                           .length_max = 200},
                                          5);
  expect_met(totals.false_candidates);
}

// DG-16, DG-31: a map of a hundredth of the keys.
TEST(RecordSimulation, SmallMaps) {
  const RecordTotals totals =
      run_profile({.name = "small maps", .keys = 500, .entries = 5, .memory_bytes = 4 << 20}, 5);
  expect_met(totals.lookups);
}

// DG-14: several servers, reached by one pool of fewer initiators.
TEST(RecordSimulation, Servers) {
  (void)run_profile({.name = "servers", .servers = 4, .dcis = 2}, 5);
}

// DG-19, DG-32: connections that end in the middle of updates.
TEST(RecordSimulation, LostConnections) {
  const RecordTotals totals = run_profile({.name = "lost connections",
                                           .faults = kBadPath,
                                           .servers = 3,
                                           .contexts = 8,
                                           .dcis = 4,
                                           .memory_bytes = 1 << 20,
                                           .lease_ns = kLongLeaseNs},
                                          10);
  expect_met(totals.stale);
}

// DG-20: requests that time out never take effect later.
TEST(RecordSimulation, Stops) {
  const RecordTotals totals = run_profile({.name = "stops",
                                           .faults = kBadPath,
                                           .memory_bytes = 1 << 20,
                                           .lease_ns = kLongLeaseNs,
                                           .stops = true},
                                          10);
  expect_met(totals.timeouts);
}

// DG-30, DG-32: clients that die with locks held and changes under way.
TEST(RecordSimulation, Deaths) {
  const RecordTotals totals = run_profile({.name = "deaths", .dies = true}, 20);
  expect_met(totals.fenced);
  expect_met(totals.locks_released);
}

}  // namespace
}  // namespace rockhopper::sim
