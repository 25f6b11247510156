// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Active messages under seeded faults: every callback once, and not before what it tells of is true
// by another path (AM-1 to AM-14, AM-20 to AM-24, AM-26 to AM-28, AM-31, AM-32).
#include <cinttypes>
#include <cstdio>

#include <gtest/gtest.h>

#include "tests/ami/ami_run.h"
#include "tests/sim/seeded_runs.h"

namespace rockhopper::sim {
namespace {

constexpr std::uint64_t kSeeds = 1'000;

AmiTotals run_profile(const AmiProfile& profile, std::uint64_t share) {
  AmiTotals t;
  const double seconds = run_seeds(profile.name, seeds_or(kSeeds), share, [&](std::uint64_t seed) {
    return run_ami(seed, profile, pools(), t);
  });
  std::printf("%s: %" PRIu64 " runs in %.1f s, %" PRIu64 " instructions, %" PRIu64
              " callbacks, failed %" PRIu64 "; %" PRIu64 " messages handled, rendezvous %" PRIu64
              ", unknown handlers %" PRIu64 "; again %" PRIu64 ", queued %" PRIu64
              ", waited %" PRIu64 ", packets lost %" PRIu64 "\n",
              profile.name, t.runs, seconds, t.instructions, t.callbacks, t.failed, t.handled,
              t.rendezvous, t.unknown_handlers, t.again, t.queued, t.waited, t.lost);
  return t;
}

TEST(AmiSimulation, QueuePairs) {
  const AmiTotals totals = run_profile({.name = "queue pairs"}, 100);
  expect_met(totals.rendezvous);
  expect_met(totals.unknown_handlers);
  expect_met(totals.queued);
}

TEST(AmiSimulation, DynamicConnections) {
  const AmiTotals totals =
      run_profile({.name = "dynamic connections", .dynamic_connections = true, .lanes = 2}, 100);
  expect_met(totals.rendezvous);
}

TEST(AmiSimulation, Counter) {
  (void)run_profile({.name = "counter", .completion = ami::CompletionMode::counter}, 100);
  (void)run_profile({.name = "counter, dynamic connections",
                     .dynamic_connections = true,
                     .completion = ami::CompletionMode::counter,
                     .lanes = 2},
                    100);
}

TEST(AmiSimulation, SmallLimits) {
  for (const bool dc : {false, true}) {
    const AmiTotals totals = run_profile({.name = dc ? "small limits, dc" : "small limits",
                                          .dynamic_connections = dc,
                                          .slots = 4,
                                          .queue = 2,
                                          .transfers = 2,
                                          .receive_buffers = 1,
                                          .slow_applications = true},
                                         50);
    expect_met(totals.again);
  }
}

TEST(AmiSimulation, BadPath) {
  for (const bool dc : {false, true}) {
    const AmiTotals totals = run_profile({.name = dc ? "bad path, dc" : "bad path",
                                          .dynamic_connections = dc,
                                          .slots = 16,
                                          .lanes = 2,
                                          .slow_applications = true,
                                          .faults = kBadPath},
                                         150);
    expect_met(totals.lost);
  }
}

TEST(AmiSimulation, PeersThatAreGone) {
  for (const bool dc : {false, true}) {
    for (const auto mode : {ami::CompletionMode::mask, ami::CompletionMode::counter}) {
      const AmiTotals totals = run_profile({.name = dc ? "gone, dc" : "gone",
                                            .dynamic_connections = dc,
                                            .completion = mode,
                                            .lanes = 2,
                                            .slow_applications = true,
                                            .cut = true},
                                           50);
      expect_met(totals.failed);
    }
  }
}

}  // namespace
}  // namespace rockhopper::sim
