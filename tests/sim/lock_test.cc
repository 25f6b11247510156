// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Locks executed at the target, under seeded faults: nobody sees a record that is not consistent,
// nothing is done without the lock, and what was done is done once (LK-5 to LK-9, LK-12, LK-13,
// LK-20 to LK-24, LK-26, LK-28 to LK-30, LK-32).
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
              ", duplicates %" PRIu64 ", packets lost %" PRIu64 "\n",
              profile.name, t.runs, seconds, t.scopes, t.granted, t.waited, t.tries, t.wait,
              t.canceled, t.expired, t.local, t.duplicates, t.lost);
  return t;
}

/// A hazard that a profile is about must have been met, or the profile proves nothing.
void expect_met(std::uint64_t count) {
  if (!single_seed()) {
    EXPECT_GT(count, 0u);
  }
}

const NetworkFaults kP2{.rates{.loss = 0.02,
                               .corrupt = 0.005,
                               .duplicate = 0.02,
                               .duplicate_max_ns = 1'000'000,
                               .reorder = 0.03,
                               .reorder_max_ns = 200'000}};

TEST(LockSimulation, CleanNetwork) {
  const LockTotals totals = run_profile({.name = "clean"}, 200);
  EXPECT_EQ(totals.duplicates, 0u);
  EXPECT_EQ(totals.expired, 0u);
  expect_met(totals.waited);
  expect_met(totals.local);
}

TEST(LockSimulation, ShortLimits) {
  const LockTotals totals = run_profile({.name = "short limits", .short_limits = true}, 200);
  expect_met(totals.tries);
  expect_met(totals.wait);
  expect_met(totals.canceled);
}

TEST(LockSimulation, P2) {
  const LockTotals totals = run_profile({.name = "P2", .faults = kP2, .short_limits = true}, 200);
  EXPECT_EQ(totals.expired, 0u);
  expect_met(totals.duplicates);
}

/// Answers only: what is asked for again must not be done, nor read, again (LK-22, LK-23).
TEST(LockSimulation, LostAnswers) {
  const LockTotals totals = run_profile(
      {.name = "lost answers",
       .faults{.dropped_opcodes = {0x0d, 0x0e, 0x0f, 0x10, 0xda}, .dropped_percent = 15}},
      200);
  expect_met(totals.duplicates);
}

TEST(LockSimulation, SelectiveRepeat) {
  static_cast<void>(run_profile(
      {.name = "selective repeat", .faults = kP2, .short_limits = true, .selective_repeat = true},
      100));
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

/// The target takes locks back (LK-29).
TEST(LockSimulation, ShortLeases) {
  const LockTotals totals =
      run_profile({.name = "short leases", .faults{.rates{.loss = 0.05}}, .lease_us = 100}, 100);
  expect_met(totals.expired);
}

}  // namespace
}  // namespace rockhopper::sim
