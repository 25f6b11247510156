// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Two connection managers under seeded faults: connects, accepts, rejects, disconnects, lookups and
// releases at random by both. Each request has one outcome, both ends agree in the end, and nothing
// is left over (docs/testing.md).
#include <cinttypes>
#include <cstdio>

#include <gtest/gtest.h>

#include "tests/sim/cm_run.h"
#include "tests/sim/seeded_runs.h"

namespace rockhopper::sim {
namespace {

constexpr std::uint64_t kSeeds = 20'000;

/// `share` is the profile's part in a thousand of the seeds.
CmTotals run_profile(const CmProfile& profile, std::uint64_t share, PoolSet& pool_set = pools()) {
  CmTotals t;
  const double seconds = run_seeds(profile.name, seeds_or(kSeeds), share, [&](std::uint64_t seed) {
    return run_connection_managers(seed, profile, pool_set, t);
  });
  std::printf("%s: %" PRIu64 " runs in %.1f s, %" PRIu64 " connects, established %" PRIu64
              ", ended %" PRIu64 ", REJ %" PRIu64 ", lookups %" PRIu64 ", answered %" PRIu64
              ", released early %" PRIu64 "; packets lost %" PRIu64 ", repeated %" PRIu64
              ", duplicates %" PRIu64 ", given up %" PRIu64 "\n",
              profile.name, t.runs, seconds, t.connects, t.established, t.disconnected, t.rejects,
              t.lookups, t.answered, t.released_early, t.lost, t.repeated, t.duplicates,
              t.timeouts);
  return t;
}

TEST(CmSimulation, CleanNetwork) {
  const CmTotals totals = run_profile({.name = "clean", .exact = true}, 200);
  expect_met(totals.established);
  expect_met(totals.disconnected);
  expect_met(totals.rejects);
  expect_met(totals.released_early);
}

TEST(CmSimulation, NextHopsMustBeFound) {
  (void)run_profile({.name = "resolution", .exact = true, .resolve_neighbours = true}, 100);
}

TEST(CmSimulation, P1Loss) {
  const CmTotals totals = run_profile({.name = "loss 5 %", .faults{.rates{.loss = 0.05}}}, 200);
  expect_met(totals.lost);
  expect_met(totals.repeated);
}

TEST(CmSimulation, P2LossDuplicationReorderingCorruption) {
  const CmTotals totals = run_profile({.name = "P2",
                                       .faults{.rates{.loss = 0.01,
                                                      .corrupt = 0.0001,
                                                      .duplicate = 0.01,
                                                      .duplicate_max_ns = 500'000'000,
                                                      .reorder = 0.05,
                                                      .reorder_max_ns = 2'000'000}}},
                                      250);
  expect_met(totals.lost);
  expect_met(totals.duplicates);
}

TEST(CmSimulation, Duplication) {
  const CmTotals totals =
      run_profile({.name = "duplication 30 %",
                   .faults{.rates{.duplicate = 0.3, .duplicate_max_ns = 2'000'000'000}}},
                  100);
  expect_met(totals.duplicates);
}

TEST(CmSimulation, SlowApplications) {
  const CmTotals totals = run_profile(
      {.name = "slow applications", .faults{.rates{.loss = 0.02}}, .slow_answers = true}, 50);
  expect_met(totals.duplicates);
}

TEST(CmSimulation, TooFewRetries) {
  const CmTotals totals = run_profile(
      {.name = "few retries", .faults{.rates{.loss = 0.2, .reorder = 0.05}}, .few_retries = true},
      100);
  expect_met(totals.timeouts);
}

}  // namespace
}  // namespace rockhopper::sim
