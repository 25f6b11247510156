// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Reliable connections under seeded faults, against a model (docs/testing.md).
#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>

#include <gtest/gtest.h>

#include "roce/wire/opcode.h"
#include "tests/sim/rc_run.h"
#include "tests/sim/seeded_runs.h"

namespace rockhopper::sim {
namespace {

using wire::Opcode;

constexpr std::uint64_t kSeeds = 20'000;

void report(const RcProfile& profile, const RcTotals& t, double seconds) {
  std::printf("%s: %" PRIu64 " runs in %.1f s, %" PRIu64 " requests, %" PRIu64 " MB, %" PRIu64
              " packets; lost %" PRIu64 ", sent again %" PRIu64 ", duplicates %" PRIu64
              ", out of sequence %" PRIu64 ", timeouts %" PRIu64 ", implied NAKs %" PRIu64
              ", RNR NAKs %" PRIu64 ", bad ICRC %" PRIu64 ", failed %" PRIu64 ", drains %" PRIu64
              ", SRQ limits %" PRIu64 ", binds %" PRIu64 ", invalidations %" PRIu64
              ", stale keys %" PRIu64 ", refused %" PRIu64 ", no mbuf %" PRIu64 ", virtual %" PRIu64
              " s\n",
              profile.name, t.runs, seconds, t.requests, t.bytes >> 20, t.packets, t.lost,
              t.retransmitted, t.duplicates, t.out_of_sequence, t.timeouts, t.implied_naks,
              t.rnr_naks, t.bad_icrc, t.failed_connections, t.drains, t.limit_events, t.binds,
              t.invalidations, t.stale_keys, t.refused, t.no_mbuf, t.virtual_ns / 1'000'000'000);
}

/// `share` is the profile's part in a thousand of the seeds.
RcTotals run_seeds(const RcProfile& profile, std::uint64_t share, PoolSet& pool_set = pools()) {
  RcTotals totals;
  const double seconds =
      sim::run_seeds(profile.name, seeds_or(kSeeds), share,
                     [&](std::uint64_t seed) { return run_rc(seed, profile, pool_set, totals); });
  report(profile, totals, seconds);
  return totals;
}

/// A hazard that a profile is about must have been met, or the profile proves nothing.
#define EXPECT_MET(count)        \
  if (!single_seed()) {          \
    EXPECT_GT(totals.count, 0u); \
  }

TEST(RcSimulation, P0Clean) {
  const auto totals = run_seeds({.name = "P0", .lossless = true}, 120);
  EXPECT_EQ(totals.timeouts, 0u);
}

TEST(RcSimulation, P0LateReceives) {
  const auto totals =
      run_seeds({.name = "P0 late receives", .lossless = true, .late_receives = true}, 60);
  EXPECT_MET(rnr_naks);
}

TEST(RcSimulation, SharedReceiveQueues) {
  const auto totals = run_seeds(
      {.name = "SRQ, P2",
       .faults{
           .rates{.loss = 0.01, .duplicate = 0.01, .reorder = 0.05, .reorder_max_ns = 2'000'000}},
       .srq_percent = 100,
       .timeout_min = 9},
      40);
  EXPECT_MET(limit_events);
  EXPECT_MET(rnr_naks);
}

TEST(RcSimulation, P1Loss) {
  const auto totals = run_seeds({.name = "P1", .faults{.rates{.loss = 0.01}}}, 100);
  EXPECT_MET(retransmitted);
}

TEST(RcSimulation, P2LossDuplicationReorderingCorruption) {
  const auto totals = run_seeds({.name = "P2",
                                 .faults{.rates{.loss = 0.01,
                                                .corrupt = 0.0001,
                                                .duplicate = 0.01,
                                                .reorder = 0.05,
                                                .reorder_max_ns = 2'000'000}},
                                 .timeout_min = 9},
                                100);
  EXPECT_MET(duplicates);
  EXPECT_MET(out_of_sequence);
}

TEST(RcSimulation, P2LateReceives) {
  const auto totals = run_seeds(
      {.name = "P2 late receives",
       .faults{
           .rates{.loss = 0.01, .duplicate = 0.01, .reorder = 0.05, .reorder_max_ns = 2'000'000}},
       .late_receives = true,
       .timeout_min = 9},
      60);
  EXPECT_MET(rnr_naks);
}

TEST(RcSimulation, HeavyLoss) {
  // Eight losses in a row end a connection; at 7 % that happens by chance once in 20,000 runs.
  const auto totals = run_seeds({.name = "loss 5 %", .faults{.rates{.loss = 0.05}}}, 60);
  EXPECT_MET(timeouts);
  EXPECT_MET(implied_naks);
}

TEST(RcSimulation, Duplication) {
  const auto totals = run_seeds({.name = "duplication 30 %",
                                 .faults{.rates{.duplicate = 0.3, .duplicate_max_ns = 3'000'000}}},
                                60);
  EXPECT_MET(duplicates);
}

TEST(RcSimulation, P6LateDuplicates) {
  const auto totals = run_seeds({.name = "P6",
                                 .faults{.rates{.duplicate = 0.05,
                                                .duplicate_max_ns = 5'000'000'000,
                                                .reorder = 0.01,
                                                .reorder_max_ns = 5'000'000'000}}},
                                30);
  EXPECT_MET(duplicates);
}

TEST(RcSimulation, Reordering) {
  const auto totals = run_seeds(
      {.name = "reordering 20 %", .faults{.rates{.reorder = 0.2, .reorder_max_ns = 50'000}}}, 60);
  EXPECT_MET(out_of_sequence);
}

TEST(RcSimulation, Corruption) {
  const auto totals = run_seeds({.name = "corruption 3 %", .faults{.rates{.corrupt = 0.03}}}, 60);
  EXPECT_MET(bad_icrc);
}

TEST(RcSimulation, DelayAndRate) {
  run_seeds({.name = "delay, jitter, rate",
             .faults{.rates{.delay_ns = 200'000,
                            .jitter_ns = 300'000,
                            .rate_bits_per_s = 2'000'000'000,
                            .queue_packets = 20}},
             .timeout_min = 11},
            30);
}

TEST(RcSimulation, LongMessages) {
  run_seeds(
      {.name = "64 KiB and more, P2",
       .faults{.rates{.loss = 0.01, .duplicate = 0.01, .reorder = 0.02, .reorder_max_ns = 100'000}},
       .long_messages = true},
      15);
}

TEST(RcSimulation, SmallMbufs) {
  run_seeds({.name = "small mbufs, P2",
             .faults{.rates{.loss = 0.01,
                            .corrupt = 0.001,
                            .duplicate = 0.01,
                            .reorder = 0.05,
                            .reorder_max_ns = 200'000}}},
            40, small_pools());
}

TEST(RcSimulation, NeighboursResolvedUnderLoss) {
  run_seeds({.name = "ARP and ND under loss",
             .faults{.rates{.loss = 0.05}},
             .resolve_neighbours = true,
             .timeout_min = 17},
            20);
}

TEST(RcSimulation, OnlyAcknowledgementsLost) {
  const auto totals =
      run_seeds({.name = "ACKs lost",
                 .faults{.dropped_opcodes = {static_cast<std::uint8_t>(Opcode::rc_acknowledge)},
                         .dropped_percent = 10}},
                40);
  EXPECT_MET(duplicates);
}

TEST(RcSimulation, OnlyReadResponsesLost) {
  const auto totals = run_seeds(
      {.name = "READ responses lost",
       .faults{.dropped_opcodes = {static_cast<std::uint8_t>(Opcode::rc_rdma_read_response_first),
                                   static_cast<std::uint8_t>(Opcode::rc_rdma_read_response_middle),
                                   static_cast<std::uint8_t>(Opcode::rc_rdma_read_response_last),
                                   static_cast<std::uint8_t>(Opcode::rc_rdma_read_response_only)},
               .dropped_percent = 10}},
      40);
  EXPECT_MET(implied_naks);
}

TEST(RcSimulation, OnlyAtomicAcknowledgementsLost) {
  const auto totals = run_seeds(
      {.name = "atomic ACKs lost",
       .faults{.dropped_opcodes = {static_cast<std::uint8_t>(Opcode::rc_atomic_acknowledge)},
               .dropped_percent = 10}},
      40);
  EXPECT_MET(duplicates);
}

TEST(RcSimulation, OnlyLastPacketsLost) {
  const auto totals = run_seeds(
      {.name = "last packets lost",
       .faults{
           .dropped_opcodes = {static_cast<std::uint8_t>(Opcode::rc_send_last),
                               static_cast<std::uint8_t>(Opcode::rc_send_last_with_immediate),
                               static_cast<std::uint8_t>(Opcode::rc_rdma_write_last),
                               static_cast<std::uint8_t>(Opcode::rc_rdma_write_last_with_immediate),
                               static_cast<std::uint8_t>(Opcode::rc_rdma_read_response_last)},
           .dropped_percent = 10}},
      40);
  EXPECT_MET(timeouts);
}

TEST(RcSimulation, OnlyReadAndAtomicRequestsLost) {
  const auto totals = run_seeds(
      {.name = "READ and atomic requests lost",
       .faults{.dropped_opcodes = {static_cast<std::uint8_t>(Opcode::rc_rdma_read_request),
                                   static_cast<std::uint8_t>(Opcode::rc_compare_swap),
                                   static_cast<std::uint8_t>(Opcode::rc_fetch_add)},
               .dropped_percent = 10}},
      40);
  EXPECT_MET(out_of_sequence);
}

TEST(RcSimulation, FatalRequestStopsEverythingBehindIt) {
  const auto totals =
      run_seeds({.name = "fatal request, P0", .ending = Ending::fatal, .lossless = true}, 30);
  EXPECT_MET(failed_connections);
}

TEST(RcSimulation, FatalRequestStopsEverythingBehindItUnderLoss) {
  const auto totals = run_seeds(
      {.name = "fatal request, P1", .faults{.rates{.loss = 0.01}}, .ending = Ending::fatal}, 40);
  EXPECT_MET(failed_connections);
}

TEST(RcSimulation, BlackHoleEndsInFlushes) {
  const auto totals =
      run_seeds({.name = "black hole", .ending = Ending::blackhole, .timeout_min = 7}, 40);
  EXPECT_MET(failed_connections);
}

TEST(RcSimulation, QueuePairsAreUsedAgainAfterAFailure) {
  const auto totals = run_seeds({.name = "reset and reconnect", .ending = Ending::reconnect}, 40);
  EXPECT_MET(failed_connections);
}

TEST(RcSimulation, ScarceMbufs) {
  const auto totals = run_seeds(
      {.name = "24 mbufs", .faults{.rates{.loss = 0.005}}, .scarce_mbufs = true, .timeout_min = 9},
      20, scarce_pools());
  EXPECT_MET(no_mbuf);
}

/// Profile P2 of docs/requirements.md.
const NetworkFaults kP2{.rates{.loss = 0.01,
                               .corrupt = 0.0001,
                               .duplicate = 0.01,
                               .reorder = 0.05,
                               .reorder_max_ns = 2'000'000}};

TEST(RcSimulation, Xrc) { run_seeds({.name = "XRC, P0", .lossless = true, .xrc = true}, 40); }

TEST(RcSimulation, XrcP2) {
  const auto totals =
      run_seeds({.name = "XRC, P2", .faults = kP2, .xrc = true, .timeout_min = 9}, 100);
  EXPECT_MET(limit_events);
  EXPECT_MET(rnr_naks);
  EXPECT_MET(duplicates);
}

TEST(RcSimulation, XrcLateReceives) {
  const auto totals = run_seeds({.name = "XRC, P2, late receives",
                                 .faults = kP2,
                                 .late_receives = true,
                                 .xrc = true,
                                 .timeout_min = 9},
                                40);
  EXPECT_MET(rnr_naks);
}

TEST(RcSimulation, XrcFatalRequest) {
  const auto totals = run_seeds(
      {.name = "XRC, fatal request, P0", .ending = Ending::fatal, .lossless = true, .xrc = true},
      30);
  EXPECT_MET(failed_connections);
}

TEST(RcSimulation, XrcFatalRequestUnderLoss) {
  const auto totals = run_seeds({.name = "XRC, fatal request, P2",
                                 .faults = kP2,
                                 .ending = Ending::fatal,
                                 .xrc = true,
                                 .timeout_min = 9},
                                40);
  EXPECT_MET(failed_connections);
}

TEST(RcSimulation, XrcBlackHoleAndReconnect) {
  const auto totals =
      run_seeds({.name = "XRC, reset and reconnect", .ending = Ending::reconnect, .xrc = true}, 30);
  EXPECT_MET(failed_connections);
}

TEST(RcSimulation, MemoryWindows) {
  const auto totals = run_seeds({.name = "windows, P0", .lossless = true, .windows = true}, 40);
  EXPECT_MET(binds);
  EXPECT_MET(invalidations);
}

TEST(RcSimulation, MemoryWindowsP2) {
  const auto totals =
      run_seeds({.name = "windows, P2", .faults = kP2, .windows = true, .timeout_min = 9}, 100);
  EXPECT_MET(binds);
  EXPECT_MET(invalidations);
  EXPECT_MET(duplicates);
}

TEST(RcSimulation, MemoryWindowsFatalRequest) {
  const auto totals = run_seeds({.name = "windows, fatal request, P0",
                                 .ending = Ending::fatal,
                                 .lossless = true,
                                 .windows = true},
                                40);
  EXPECT_MET(failed_connections);
  EXPECT_MET(stale_keys);
}

TEST(RcSimulation, MemoryWindowsFatalRequestUnderLoss) {
  const auto totals = run_seeds({.name = "windows, fatal request, P2",
                                 .faults = kP2,
                                 .ending = Ending::fatal,
                                 .windows = true,
                                 .timeout_min = 9},
                                40);
  EXPECT_MET(failed_connections);
}

TEST(RcSimulation, MemoryWindowsRevoked) {
  const auto totals = run_seeds({.name = "windows, revoked in use, P0",
                                 .ending = Ending::revoke,
                                 .lossless = true,
                                 .windows = true},
                                40);
  EXPECT_MET(refused);
}

TEST(RcSimulation, MemoryWindowsRevokedUnderLoss) {
  const auto totals = run_seeds({.name = "windows, revoked in use, P2",
                                 .faults = kP2,
                                 .ending = Ending::revoke,
                                 .windows = true,
                                 .timeout_min = 9},
                                60);
  EXPECT_MET(refused);
}

// The same with selective repeat and with the adaptive timeout, at both ends.

constexpr auto kSelective = roce::RecoveryAlgorithm::selective_repeat;

TEST(RcRecovery, SelectiveClean) {
  const auto totals =
      run_seeds({.name = "selective, P0", .lossless = true, .recovery = kSelective}, 20);
  EXPECT_EQ(totals.timeouts, 0u);
}

TEST(RcRecovery, SelectiveP2) {
  const auto totals = run_seeds(
      {.name = "selective, P2", .faults = kP2, .timeout_min = 9, .recovery = kSelective}, 100);
  EXPECT_MET(held);
  EXPECT_MET(selective_acks);
  EXPECT_MET(duplicates);
}

TEST(RcRecovery, SelectiveP2LateReceives) {
  const auto totals = run_seeds({.name = "selective, P2, late receives",
                                 .faults = kP2,
                                 .late_receives = true,
                                 .timeout_min = 9,
                                 .recovery = kSelective},
                                60);
  EXPECT_MET(rnr_naks);
  EXPECT_MET(held);
}

TEST(RcRecovery, SelectiveSharedReceives) {
  const auto totals = run_seeds({.name = "selective, P2, SRQ",
                                 .faults = kP2,
                                 .srq_percent = 100,
                                 .timeout_min = 9,
                                 .recovery = kSelective},
                                30);
  EXPECT_MET(limit_events);
  EXPECT_MET(held);
}

TEST(RcRecovery, SelectiveHeavyLoss) {
  const auto totals = run_seeds(
      {.name = "selective, loss 5 %", .faults{.rates{.loss = 0.05}}, .recovery = kSelective}, 60);
  EXPECT_MET(held);
  EXPECT_MET(timeouts);
}

TEST(RcRecovery, SelectiveReordering) {
  const auto totals = run_seeds({.name = "selective, reordering 20 %",
                                 .faults{.rates{.reorder = 0.2, .reorder_max_ns = 50'000}},
                                 .recovery = kSelective},
                                40);
  EXPECT_MET(held);
}

TEST(RcRecovery, SelectiveDuplication) {
  const auto totals =
      run_seeds({.name = "selective, duplication 30 %",
                 .faults{.rates{.loss = 0.01, .duplicate = 0.3, .duplicate_max_ns = 3'000'000}},
                 .recovery = kSelective},
                30);
  EXPECT_MET(duplicates);
}

TEST(RcRecovery, SelectiveAcknowledgementsLost) {
  const auto totals = run_seeds(
      {.name = "selective, ACKs lost",
       .faults{.rates{.loss = 0.01},
               .dropped_opcodes = {static_cast<std::uint8_t>(Opcode::rc_acknowledge),
                                   static_cast<std::uint8_t>(Opcode::selective_acknowledge)},
               .dropped_percent = 10},
       .recovery = kSelective},
      40);
  EXPECT_MET(duplicates);
}

TEST(RcRecovery, SelectiveReadResponsesLost) {
  const auto totals = run_seeds(
      {.name = "selective, responses lost",
       .faults{.dropped_opcodes = {static_cast<std::uint8_t>(Opcode::rc_rdma_read_response_first),
                                   static_cast<std::uint8_t>(Opcode::rc_rdma_read_response_middle),
                                   static_cast<std::uint8_t>(Opcode::rc_rdma_read_response_last),
                                   static_cast<std::uint8_t>(Opcode::rc_rdma_read_response_only),
                                   static_cast<std::uint8_t>(Opcode::rc_atomic_acknowledge)},
               .dropped_percent = 10},
       .recovery = kSelective},
      40);
  EXPECT_MET(implied_naks);
  EXPECT_MET(held);
}

TEST(RcRecovery, SelectiveLongMessages) {
  const auto totals = run_seeds({.name = "selective, 64 KiB and more, P2",
                                 .faults = kP2,
                                 .long_messages = true,
                                 .recovery = kSelective},
                                15);
  EXPECT_MET(held);
}

TEST(RcRecovery, SelectiveWithLittleRoomToHold) {
  const auto totals = run_seeds({.name = "selective, P2, 3 held",
                                 .faults = kP2,
                                 .timeout_min = 9,
                                 .recovery = kSelective,
                                 .max_held_packets = 3},
                                40);
  EXPECT_MET(held);
  EXPECT_MET(not_held);
}

TEST(RcRecovery, SelectiveSmallMbufs) {
  run_seeds({.name = "selective, small mbufs, P2", .faults = kP2, .recovery = kSelective}, 20,
            small_pools());
}

TEST(RcRecovery, SelectiveFatalRequest) {
  const auto totals = run_seeds({.name = "selective, fatal request, P1",
                                 .faults{.rates{.loss = 0.01, .reorder = 0.05}},
                                 .ending = Ending::fatal,
                                 .recovery = kSelective},
                                20);
  EXPECT_MET(failed_connections);
}

TEST(RcRecovery, SelectiveQueuePairsAreUsedAgain) {
  const auto totals = run_seeds({.name = "selective, reset and reconnect",
                                 .faults{.rates{.loss = 0.02}},
                                 .ending = Ending::reconnect,
                                 .recovery = kSelective},
                                20);
  EXPECT_MET(failed_connections);
}

TEST(RcRecovery, AdaptiveTimeoutP2) {
  const auto totals = run_seeds(
      {.name = "adaptive timeout, P2", .faults = kP2, .timeout_min = 12, .adaptive_timeout = true},
      60);
  EXPECT_MET(timeouts);
}

TEST(RcRecovery, AdaptiveTimeoutDelayAndRate) {
  run_seeds({.name = "adaptive timeout, delay, jitter, rate",
             .faults{.rates{.loss = 0.01,
                            .delay_ns = 200'000,
                            .jitter_ns = 300'000,
                            .rate_bits_per_s = 2'000'000'000,
                            .queue_packets = 20}},
             .timeout_min = 12,
             .adaptive_timeout = true},
            20);
}

TEST(RcRecovery, AdaptiveTimeoutBlackHole) {
  const auto totals = run_seeds({.name = "adaptive timeout, black hole",
                                 .ending = Ending::blackhole,
                                 .timeout_min = 10,
                                 .adaptive_timeout = true},
                                20);
  EXPECT_MET(failed_connections);
}

TEST(RcRecovery, SelectiveAndAdaptiveP2) {
  const auto totals = run_seeds({.name = "selective, adaptive timeout, P2",
                                 .faults = kP2,
                                 .timeout_min = 12,
                                 .recovery = kSelective,
                                 .adaptive_timeout = true},
                                100);
  EXPECT_MET(held);
  EXPECT_MET(timeouts);
}

TEST(RcRecovery, SelectiveAndAdaptiveHeavyLoss) {
  const auto totals = run_seeds({.name = "selective, adaptive timeout, loss 5 %",
                                 .faults{.rates{.loss = 0.05}},
                                 .timeout_min = 12,
                                 .recovery = kSelective,
                                 .adaptive_timeout = true},
                                40);
  EXPECT_MET(held);
}

/// The paths of short packets and the general ones do the same, to the bit and to the nanosecond.
TEST(RcSimulation, ShortPacketsGoTheGeneralWayOrTheirOwn) {
  const std::uint64_t seeds = std::max<std::uint64_t>(20, seeds_or(kSeeds) / 50);
  const NetworkFaults bad{.rates{.loss = 0.02,
                                 .corrupt = 0.005,
                                 .duplicate = 0.02,
                                 .reorder = 0.03,
                                 .reorder_max_ns = 100'000},
                          .marked_percent = 5};
  RcProfile profile{.name = "both ways", .short_messages = true, .timeout_min = 9};
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    profile.faults = seed % 2 == 0 ? bad : NetworkFaults{};
    profile.late_receives = seed % 5 == 0;
    std::array<RcTotals, 2> totals;
    for (const bool plain : {false, true}) {
      profile.plain_bursts = plain;
      ASSERT_EQ(run_rc(seed, profile, pools(), totals[plain ? 1 : 0]), "")
          << "seed " << seed << ", plain bursts " << plain;
    }
    EXPECT_TRUE(totals[0] == totals[1]) << "seed " << seed;
    if (HasFailure()) {
      report({.name = "general"}, totals[0], 0);
      report({.name = "plain"}, totals[1], 0);
    }
  }
}

/// Short scripts, each run again with every single packet lost once, and with pairs of packets.
TEST(RcSimulation, EverySinglePacketLost) {
  const std::uint64_t scripts = std::max<std::uint64_t>(1, seeds_or(kSeeds) / 400);
  RcTotals totals;
  std::uint64_t runs = 0;
  for (std::uint64_t seed = 1; seed <= scripts && !HasFailure(); ++seed) {
    RcProfile profile{.name = "single losses", .short_script = true};
    ASSERT_EQ(run_rc(seed, profile, pools(), totals), "") << "seed " << seed << ", no loss";
    std::vector<std::pair<unsigned, std::uint64_t>> packets;
    for (unsigned node = 0; node < 2; ++node) {
      for (std::uint64_t number = 0; number < totals.last_offered[node]; ++number) {
        packets.emplace_back(node, number);
      }
    }
    for (std::size_t i = 0; i < packets.size() && !HasFailure(); ++i) {
      // The packet alone, then with each of the next few, which repeat or answer it.
      for (std::size_t j = i; j < std::min(packets.size(), i + 5); ++j) {
        profile.faults.dropped_packets = {packets[i], packets[j]};
        ASSERT_EQ(run_rc(seed, profile, pools(), totals), "")
            << "seed " << seed << ", lost packets (node, number): (" << packets[i].first << ", "
            << packets[i].second << ") (" << packets[j].first << ", " << packets[j].second << ")";
        ++runs;
      }
    }
  }
  report({.name = "single losses"}, totals, 0);
  EXPECT_GT(runs, scripts);
  EXPECT_GT(totals.timeouts, 0u);
}

}  // namespace
}  // namespace rockhopper::sim
