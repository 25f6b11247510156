// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Collectives between 1 to 17 ranks under seeded faults: each request ends once, in whatever order
// the ranks start and messages come; with the result that the model has, bit by bit, or, once a
// rank is gone or does not agree, with an error (AM-8, AM-22, AM-23, AM-27, AM-28).
#include <cinttypes>
#include <cstdio>

#include <gtest/gtest.h>

#include "tests/ami/collective_run.h"
#include "tests/sim/seeded_runs.h"

namespace rockhopper::sim {
namespace {

constexpr std::uint64_t kSeeds = 1'000;

CollectiveTotals run_profile(const CollectiveProfile& profile, std::uint64_t share) {
  CollectiveTotals t;
  const double seconds = run_seeds(profile.name, seeds_or(kSeeds), share, [&](std::uint64_t seed) {
    return run_collectives(seed, profile, pools(), t);
  });
  std::printf("%s: %" PRIu64 " runs in %.1f s, %" PRIu64 " started, failed %" PRIu64
              "; overtaken %" PRIu64 ", early messages %" PRIu64 ", repeated %" PRIu64
              ", again %" PRIu64 ", syncs %" PRIu64 ", probes %" PRIu64 ", aborts %" PRIu64
              ", packets lost %" PRIu64 "\n",
              profile.name, t.runs, seconds, t.started, t.failed, t.overtaken, t.early, t.repeated,
              t.again, t.syncs, t.probes, t.aborts, t.lost);
  EXPECT_TRUE(testing::Test::HasFailure() || t.started == t.ended);
  return t;
}

TEST(CollectiveSimulation, QueuePairs) {
  const CollectiveTotals totals =
      run_profile({.name = "queue pairs", .max_sleep_ns = 100'000, .second_group = true}, 60);
  expect_met(totals.reductions);
  expect_met(totals.long_broadcasts);
  expect_met(totals.early);
  expect_met(totals.overtaken);
  expect_met(totals.syncs);
}

TEST(CollectiveSimulation, DynamicConnections) {
  const CollectiveTotals totals = run_profile({.name = "dynamic connections",
                                               .dynamic_connections = true,
                                               .max_sleep_ns = 100'000,
                                               .second_group = true},
                                              40);
  expect_met(totals.early);
}

TEST(CollectiveSimulation, ManyRanks) {
  (void)run_profile({.name = "many ranks", .min_ranks = 15, .collectives = 15}, 10);
}

TEST(CollectiveSimulation, SmallLimits) {
  for (const bool dc : {false, true}) {
    const CollectiveTotals totals = run_profile({.name = dc ? "small limits, dc" : "small limits",
                                                 .dynamic_connections = dc,
                                                 .max_ranks = 9,
                                                 .max_window = 2,
                                                 .slots = 4,
                                                 .queue = dc ? 1u : 0u,
                                                 .max_sleep_ns = 300'000,
                                                 .second_group = true},
                                                30);
    expect_met(totals.again);
  }
}

TEST(CollectiveSimulation, RootsThatRunAhead) {
  const CollectiveTotals totals = run_profile({.name = "roots that run ahead",
                                               .max_ranks = 6,
                                               .collectives = 200,
                                               .max_sleep_ns = 1'000'000,
                                               .broadcasts_only = true},
                                              30);
  expect_met(totals.again);
  expect_met(totals.early);
}

TEST(CollectiveSimulation, BadPath) {
  for (const bool dc : {false, true}) {
    const CollectiveTotals totals = run_profile({.name = dc ? "bad path, dc" : "bad path",
                                                 .dynamic_connections = dc,
                                                 .max_sleep_ns = 300'000,
                                                 .second_group = true,
                                                 .rates = kBadPath.rates},
                                                20);
    expect_met(totals.lost);
    expect_met(totals.early);
  }
}

TEST(CollectiveSimulation, RanksThatAreGone) {
  for (const bool dc : {false, true}) {
    const CollectiveTotals totals = run_profile({.name = dc ? "gone, dc" : "gone",
                                                 .dynamic_connections = dc,
                                                 .min_ranks = 2,
                                                 .max_sleep_ns = 300'000,
                                                 .second_group = true,
                                                 .deaths = true},
                                                40);
    expect_met(totals.failed);
    expect_met(totals.aborts);
    expect_met(totals.probes);
  }
}

TEST(CollectiveSimulation, RanksThatAreGoneBeforeRootsRunAhead) {
  const CollectiveTotals totals = run_profile({.name = "gone, roots run ahead",
                                               .min_ranks = 2,
                                               .max_ranks = 6,
                                               .collectives = 200,
                                               .max_window = 4,
                                               .broadcasts_only = true,
                                               .deaths = true},
                                              40);
  expect_met(totals.failed);
}

TEST(CollectiveSimulation, Cancel) {
  const CollectiveTotals totals =
      run_profile({.name = "cancel", .min_ranks = 2, .max_sleep_ns = 300'000, .cancels = true}, 40);
  expect_met(totals.failed);
  expect_met(totals.aborts);
}

TEST(CollectiveSimulation, RanksThatDoNotAgree) {
  const CollectiveTotals totals = run_profile(
      {.name = "disagreement", .min_ranks = 2, .max_sleep_ns = 300'000, .disagrees = true}, 40);
  expect_met(totals.failed);
}

}  // namespace
}  // namespace rockhopper::sim
