// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Locks executed at the target, under seeded faults: nobody sees a record that is not consistent,
// nothing is done without the lock, and what was done is done once (LK-5 to LK-9, LK-12 to LK-14,
// LK-20 to LK-24, LK-26, LK-28 to LK-30, LK-32, LK-33).
#include <cinttypes>
#include <cstdio>

#include <gtest/gtest.h>

#include "tests/sim/lock_run.h"
#include "tests/sim/seeded_runs.h"

namespace rockhopper::sim {
namespace {

constexpr std::uint64_t kSeeds = 2'000;

LockTotals run_profile(const LockProfile& profile, std::uint64_t share) {
  LockTotals t;
  const double seconds = run_seeds(profile.name, seeds_or(kSeeds), share, [&](std::uint64_t seed) {
    return run_locks(seed, profile, pools(), t);
  });
  std::printf("%s: %" PRIu64 " runs in %.1f s, %" PRIu64 " scopes, granted %" PRIu64
              ", waited %" PRIu64 ", failed by tries %" PRIu64 ", by wait %" PRIu64
              ", canceled %" PRIu64 ", expired %" PRIu64 "; held locally %" PRIu64
              ", together %" PRIu64 ", released by others %" PRIu64 ", vanished %" PRIu64
              ", leases over %" PRIu64 ", duplicates %" PRIu64 ", packets lost %" PRIu64 "\n",
              profile.name, t.runs, seconds, t.scopes, t.granted, t.waited, t.tries, t.wait,
              t.canceled, t.expired, t.local, t.together, t.foreign_releases, t.vanished, t.leases,
              t.duplicates, t.lost);
  return t;
}

TEST(LockSimulation, CleanNetwork) {
  const LockTotals totals = run_profile({.name = "clean"}, 200);
  EXPECT_EQ(totals.duplicates, 0u);
  EXPECT_EQ(totals.expired, 0u);
  expect_met(totals.waited);
  expect_met(totals.local);
  expect_met(totals.together);
}

TEST(LockSimulation, ShortLimits) {
  const LockTotals totals = run_profile({.name = "short limits", .short_limits = true}, 200);
  expect_met(totals.tries);
  expect_met(totals.wait);
  expect_met(totals.canceled);
  expect_met(totals.foreign_releases);
}

TEST(LockSimulation, P2) {
  const LockTotals totals =
      run_profile({.name = "P2", .faults = kBadPath, .short_limits = true}, 200);
  EXPECT_EQ(totals.expired, 0u);
  expect_met(totals.duplicates);
}

/// Answers only: what is asked for again must not be done, nor read, again (LK-22, LK-23). Not so
/// many that all eight answers to a request may be among them in a long run.
TEST(LockSimulation, LostAnswers) {
  const LockTotals totals = run_profile(
      {.name = "lost answers",
       .faults{.dropped_opcodes = {0x0d, 0x0e, 0x0f, 0x10, 0xda}, .dropped_percent = 10}},
      200);
  expect_met(totals.duplicates);
}

TEST(LockSimulation, SelectiveRepeat) {
  (void)run_profile({.name = "selective repeat",
                     .faults = kBadPath,
                     .short_limits = true,
                     .selective_repeat = true},
                    100);
}

TEST(LockSimulation, DynamicConnections) {
  const LockTotals totals = run_profile({.name = "dynamic connections",
                                         .faults{.rates{.loss = 0.02, .duplicate = 0.02}},
                                         .short_limits = true,
                                         .dynamic_connections = true},
                                        150);
  expect_met(totals.tries);
  expect_met(totals.duplicates);
}

/// LK-5, LK-7, LK-24: 32 initiators and 4 threads of the target read and write records of 128 bytes
/// that are not atomic, and miss none of each other's additions.
TEST(LockSimulation, ManyInitiators) {
  const LockTotals totals = run_profile(
      {.name = "32 initiators", .faults = kBadPath, .initiators = 32, .threads = 4}, 20);
  expect_met(totals.waited);
  expect_met(totals.local);
}

/// LK-12: 1 to 32 READs and WRITEs of 1 byte to 64 KiB, as if one scope came behind the other.
TEST(LockSimulation, MixedScopes) {
  (void)run_profile({.name = "mixed", .mixed = true, .scopes = 6}, 20);
  (void)run_profile(
      {.name = "mixed, loss", .faults{.rates{.loss = 0.005}}, .mixed = true, .scopes = 6}, 20);
}

/// LK-29, LK-30: initiators that are gone for ever, at any packet. Those that store and forward
/// leave no lock behind; the locks of others end with their lease, neither earlier nor later.
TEST(LockSimulation, VanishingInitiators) {
  for (const bool dynamic : {false, true}) {
    const LockTotals totals = run_profile({.name = dynamic ? "vanishing, DC" : "vanishing",
                                           .lease_us = 10'000,
                                           .dynamic_connections = dynamic,
                                           .vanishing = true},
                                          100);
    expect_met(totals.vanished);
    expect_met(totals.leases);
  }
}

/// The target takes locks back (LK-29).
TEST(LockSimulation, ShortLeases) {
  const LockTotals totals =
      run_profile({.name = "short leases", .faults{.rates{.loss = 0.05}}, .lease_us = 100}, 100);
  expect_met(totals.expired);
}

}  // namespace
}  // namespace rockhopper::sim
