// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Dynamic connections under seeded faults: every request is executed once, at the target that it
// names, and completes in its turn; or its outcome is unknown, and is said to be (DC-9, DC-18,
// DC-26 to DC-29).
#include <cinttypes>
#include <cstdio>

#include <gtest/gtest.h>

#include "tests/sim/dc_run.h"
#include "tests/sim/seeded_runs.h"

namespace rockhopper::sim {
namespace {

constexpr std::uint64_t kSeeds = 5'000;

DcTotals run_profile(const DcProfile& profile, std::uint64_t share, PoolSet& pool_set = pools()) {
  DcTotals t;
  const double seconds = run_seeds(profile.name, seeds_or(kSeeds), share, [&](std::uint64_t seed) {
    return run_dc(seed, profile, pool_set, t);
  });
  std::printf("%s: %" PRIu64 " runs in %.1f s, %" PRIu64 " messages, unknown %" PRIu64
              "; connects %" PRIu64 ", with data %" PRIu64 ", accepts %" PRIu64
              ", sessions %" PRIu64 ", evicted %" PRIu64 ", expired %" PRIu64 ", restarts %" PRIu64
              ", lost sessions %" PRIu64 ", ghosts %" PRIu64 ", no context %" PRIu64
              ", packets lost %" PRIu64 ", notified %" PRIu64 ", slowed %" PRIu64 "\n",
              profile.name, t.runs, seconds, t.messages, t.unknown, t.connects,
              t.connects_with_data, t.accepts, t.sessions, t.evicted, t.expired, t.restarts,
              t.lost_sessions, t.ghosts, t.no_context, t.lost, t.notified, t.slowed);
  return t;
}

constexpr std::uint64_t kSecondNs = 1'000'000'000;

TEST(DcSimulation, CleanNetworkConnectsOncePerTargetChange) {
  const DcTotals totals = run_profile({.name = "clean", .no_unknown = true}, 150);
  EXPECT_EQ(totals.restarts, 0u);
  EXPECT_EQ(totals.connects, totals.sessions);
  EXPECT_EQ(totals.notified, 0u);
  expect_met(totals.connects_with_data);
}

TEST(DcSimulation, HalfHandshakeWithDataApart) {
  const DcTotals totals = run_profile({.name = "data apart",
                                       .faults{.rates{.loss = 0.03, .reorder = 0.05}},
                                       .handshake = dc::Handshake::half,
                                       .connect_with_data = false,
                                       .no_unknown = true},
                                      100);
  EXPECT_EQ(totals.connects_with_data, 0u);
}

TEST(DcSimulation, FullHandshake) {
  const DcTotals totals =
      run_profile({.name = "full", .handshake = dc::Handshake::full, .no_unknown = true}, 100);
  EXPECT_EQ(totals.restarts, 0u);
  EXPECT_EQ(totals.connects_with_data, 0u);
}

TEST(DcSimulation, CleanNetworkThatMustBeResolved) {
  (void)run_profile({.name = "resolution", .no_unknown = true, .resolve_neighbours = true}, 50);
}

TEST(DcSimulation, Loss) {
  const DcTotals totals =
      run_profile({.name = "loss 5 %", .faults{.rates{.loss = 0.05}}, .no_unknown = true}, 150);
  expect_met(totals.restarts);
}

TEST(DcSimulation, P2) {
  const DcTotals totals = run_profile({.name = "P2",
                                       .faults{.rates{.loss = 0.01,
                                                      .corrupt = 0.005,
                                                      .duplicate = 0.01,
                                                      .duplicate_max_ns = 1'000'000,
                                                      .reorder = 0.05,
                                                      .reorder_max_ns = 200'000}},
                                       .scarce_receives = true,
                                       .no_unknown = true},
                                      150);
  expect_met(totals.restarts);
  expect_met(totals.ghosts);
}

TEST(DcSimulation, FewContexts) {
  const DcTotals totals = run_profile({.name = "few contexts", .contexts = 2}, 100);
  expect_met(totals.evicted);
  expect_met(totals.no_context);
}

TEST(DcSimulation, SessionsThatGoUnderLoss) {
  const DcTotals totals = run_profile(
      {.name = "evictions, loss", .faults{.rates{.loss = 0.03, .reorder = 0.05}}, .contexts = 2},
      150);
  expect_met(totals.lost_sessions);
  expect_met(totals.unknown);
}

TEST(DcSimulation, ShortLeases) {
  const DcTotals totals =
      run_profile({.name = "short leases", .faults{.rates{.loss = 0.05}}, .lease_us = 300}, 100);
  expect_met(totals.expired);
}

constexpr std::uint64_t kGbit = 1'000'000'000;

roce::CongestionConfig slow_link() {
  return {.algorithm = roce::CongestionAlgorithm::dcqcn,
          .dcqcn{.rpg_max_rate = 10 * kGbit, .rpg_min_rate = kGbit / 10}};
}

/// A switch that marks slows the initiators down (WIRE-7), and changes nothing else.
TEST(DcSimulation, MarkedPackets) {
  const DcTotals totals = run_profile({.name = "marks",
                                       .faults{.rates{.loss = 0.01}, .marked_percent = 20},
                                       .no_unknown = true,
                                       .congestion = slow_link()},
                                      100);
  expect_met(totals.notified);
  expect_met(totals.slowed);
}

/// A stream whose turn ends with a new connection may find no mbuf for that.
TEST(DcSimulation, MarkedPacketsWithFewMbufs) {
  const DcTotals totals = run_profile({.name = "marks, 24 mbufs",
                                       .faults{.marked_percent = 20},
                                       .no_unknown = true,
                                       .congestion = slow_link()},
                                      50, scarce_pools());
  expect_met(totals.slowed);
}

/// Round trips are measured across connections.
TEST(DcSimulation, Swift) {
  (void)run_profile({.name = "swift",
                     .faults{.rates{.loss = 0.02}},
                     .no_unknown = true,
                     .congestion{.algorithm = roce::CongestionAlgorithm::swift}},
                    50);
}

/// What comes up to five seconds late must do nothing (DC-26).
TEST(DcSimulation, LatePacketsOfEarlierSessions) {
  const DcTotals totals = run_profile({.name = "late duplicates",
                                       .faults{.rates{.loss = 0.01,
                                                      .duplicate = 0.2,
                                                      .duplicate_max_ns = 5 * kSecondNs,
                                                      .reorder = 0.02,
                                                      .reorder_max_ns = 5'000'000}},
                                       .contexts = 3,
                                       .tombstone_ns = 12 * kSecondNs,
                                       .one_kind = true},
                                      50);
  expect_met(totals.ghosts);
}

/// Nor must a connect that brings its request along (DC-26, DC-28).
TEST(DcSimulation, LateConnectsWithData) {
  const DcTotals totals = run_profile({.name = "late connects with data",
                                       .faults{.rates{.loss = 0.01,
                                                      .duplicate = 0.2,
                                                      .duplicate_max_ns = 5 * kSecondNs,
                                                      .reorder = 0.02,
                                                      .reorder_max_ns = 5'000'000}},
                                       .handshake = dc::Handshake::half,
                                       .contexts = 3,
                                       .tombstone_ns = 12 * kSecondNs},
                                      50);
  expect_met(totals.ghosts);
  expect_met(totals.connects_with_data);
}

}  // namespace
}  // namespace rockhopper::sim
