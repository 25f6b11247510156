// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Subscribers at different paces, on a publisher that overwrites what they READ, under seeded
// faults: what each is delivered and told as lost is all that was published, each once and in
// order, and nothing is corrupted (PB-2 to PB-8, PB-10, PB-11, PB-20 to PB-23, PB-27, PB-28,
// PB-32).
#include "tests/publisher/store_run.h"

#include <cinttypes>
#include <cstdio>

#include <gtest/gtest.h>

#include "tests/sim/seeded_runs.h"

namespace rockhopper::sim {
namespace {

constexpr std::uint64_t kSeeds = 1'000;

StoreTotals run_profile(const StoreProfile& profile, std::uint64_t share) {
  StoreTotals t;
  const double seconds = run_seeds(profile.name, seeds_or(kSeeds), share, [&](std::uint64_t seed) {
    return run_stores(seed, profile, pools(), t);
  });
  std::printf("%s: %" PRIu64 " runs in %.1f s, published %" PRIu64 ", delivered %" PRIu64
              ", lost %" PRIu64 "; rounds %" PRIu64 ", lapped %" PRIu64 ", torn %" PRIu64
              ", restarts %" PRIu64 ", reconnects %" PRIu64 ", packets lost %" PRIu64 "\n",
              profile.name, t.runs, seconds, t.published, t.delivered, t.lost, t.rounds, t.lapped,
              t.torn, t.restarts, t.reconnects, t.packets_lost);
  return t;
}

// PB-3, PB-4, PB-7, PB-10, PB-11, PB-21.
TEST(StoreSimulation, Paces) {
  for (const bool dc : {false, true}) {
    const StoreTotals totals =
        run_profile({.name = dc ? "paces, dc" : "paces", .dynamic_connections = dc}, 10);
    expect_met(totals.lapped);
    expect_met(totals.lost);
  }
}

// PB-5, PB-20: READs whose responses leave in packets while the writer goes on.
TEST(StoreSimulation, OverwrittenWhileRead) {
  const StoreTotals totals = run_profile({.name = "overwritten",
                                          .stores = 1,
                                          .subscribers = 4,
                                          .ring_bytes = 16384,
                                          .messages = 10'000,
                                          .pace = 4,
                                          .pauses = false},
                                         20);
  expect_met(totals.lapped);
  expect_met(totals.torn);
}

// PB-6, PB-20.
TEST(StoreSimulation, BadPath) {
  for (const bool dc : {false, true}) {
    const StoreTotals totals = run_profile({.name = dc ? "bad path, dc" : "bad path",
                                            .dynamic_connections = dc,
                                            .faults = kBadPath,
                                            .stores = 2,
                                            .subscribers = 4,
                                            .interval_ns = 20'000},
                                           10);
    expect_met(totals.packets_lost);
  }
}

// PB-20: a READ of records that is executed again after that of the control block behind it. There
// the head says nothing, and the checks of each record are needed.
TEST(StoreSimulation, SelectiveRepeat) {
  const StoreTotals totals = run_profile({.name = "selective repeat",
                                          .selective_repeat = true,
                                          .faults = kBadPath,
                                          .stores = 1,
                                          .subscribers = 4,
                                          .ring_bytes = 16384,
                                          .messages = 10'000,
                                          .pace = 6,
                                          .interval_ns = 5'000},
                                         20);
  expect_met(totals.packets_lost);
  expect_met(totals.torn);
}

// PB-9, PB-32: subscriptions that come and go beside others.
TEST(StoreSimulation, Leaves) {
  for (const bool dc : {false, true}) {
    (void)run_profile({.name = dc ? "leaves, dc" : "leaves",
                       .dynamic_connections = dc,
                       .subscribers = 4,
                       .leaves = true},
                      10);
  }
}

// PB-21, PB-27: who comes back goes on where it was.
TEST(StoreSimulation, Reconnects) {
  const StoreTotals totals =
      run_profile({.name = "reconnects", .subscribers = 4, .reconnects = true}, 10);
  expect_met(totals.reconnects);
}

// PB-27: a publisher that is killed and started again all the time, with stores that go on or begin
// anew: no message twice in an epoch, none out of order, and epochs are not mixed.
TEST(StoreSimulation, Restarts) {
  const StoreTotals totals =
      run_profile({.name = "restarts", .subscribers = 4, .restarts = true}, 20);
  expect_met(totals.restarts);
  expect_met(totals.reconnects);
}

// PB-29: beside others that poll, and with all that can happen to connections: what each gets is
// the same.
TEST(StoreSimulation, Watches) {
  for (const bool dc : {false, true}) {
    const StoreTotals totals = run_profile({.name = dc ? "watches, dc" : "watches",
                                            .dynamic_connections = dc,
                                            .messages = 500,
                                            .interval_ns = 30'000,
                                            .watches = true,
                                            .leaves = true},
                                           5);
    expect_met(totals.wake_ups);
  }
}

TEST(StoreSimulation, WatchesOnABadPath) {
  for (const bool dc : {false, true}) {
    const StoreTotals totals =
        run_profile({.name = dc ? "watches, bad path, dc" : "watches, bad path",
                     .dynamic_connections = dc,
                     .faults = kBadPath,
                     .stores = 2,
                     .subscribers = 4,
                     .interval_ns = 20'000,
                     .watches = true},
                    5);
    expect_met(totals.wake_ups);
    expect_met(totals.packets_lost);
  }
}

// PB-27, PB-29.
TEST(StoreSimulation, WatchesAcrossRestarts) {
  const StoreTotals totals = run_profile({.name = "watches, restarts",
                                          .subscribers = 4,
                                          .interval_ns = 20'000,
                                          .watches = true,
                                          .reconnects = true,
                                          .restarts = true},
                                         10);
  expect_met(totals.wake_ups);
  expect_met(totals.restarts);
}

// PB-13 to PB-17: every twentieth copy is lost, others come late, and so do READs.
TEST(StoreSimulation, MulticastWithLoss) {
  for (const bool dc : {false, true}) {
    const StoreTotals totals =
        run_profile({.name = dc ? "multicast, dc" : "multicast",
                     .dynamic_connections = dc,
                     .faults = {.rates = {.reorder = 0.05, .reorder_max_ns = 20'000},
                                .dropped_opcodes = {static_cast<std::uint8_t>(
                                    wire::Opcode::ud_send_only_with_immediate)},
                                .dropped_percent = 5},
                     .stores = 2,
                     .subscribers = 4,
                     .interval_ns = 5'000,
                     .multicast = true},
                    20);
    expect_met(totals.copies_taken);
    expect_met(totals.copies_repaired);
    expect_met(totals.packets_lost);
  }
}

// PB-6, PB-13, PB-17, PB-20, PB-21: the same on a path that is bad for everything, with a ring so
// small that the publisher overtakes repairs and the multicast itself.
TEST(StoreSimulation, MulticastOvertaken) {
  const StoreTotals totals = run_profile({.name = "multicast, overtaken",
                                          .faults = kBadPath,
                                          .stores = 1,
                                          .subscribers = 4,
                                          .ring_bytes = 16384,
                                          .messages = 10'000,
                                          .pace = 6,
                                          .interval_ns = 5'000,
                                          .multicast = true},
                                         20);
  expect_met(totals.lapped);
  expect_met(totals.copies_taken);
  expect_met(totals.copies_repaired);
}

// PB-13, PB-27: groups come and go with connections and publishers.
TEST(StoreSimulation, MulticastRestarts) {
  const StoreTotals totals = run_profile({.name = "multicast, restarts",
                                          .subscribers = 4,
                                          .interval_ns = 2'000,
                                          .leaves = true,
                                          .reconnects = true,
                                          .restarts = true,
                                          .multicast = true},
                                         10);
  expect_met(totals.restarts);
  expect_met(totals.copies_taken);
}

// PB-3, PB-10, PB-11: many subscribers of the same stores.
TEST(StoreSimulation, Crowd) {
  (void)run_profile({.name = "crowd", .subscribers = 64, .pace = 2}, 1);
}

}  // namespace
}  // namespace rockhopper::sim
