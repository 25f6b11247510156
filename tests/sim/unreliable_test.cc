// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Unreliable connections and datagrams under seeded faults: what arrives is what was sent, whole,
// and every request completes (docs/testing.md).
#include <cinttypes>
#include <cstdio>

#include <gtest/gtest.h>

#include "tests/sim/seeded_runs.h"
#include "tests/sim/unreliable_run.h"

namespace rockhopper::sim::unreliable_test {
namespace {

using roce::QpType;

constexpr std::uint64_t kSeeds = 5'000;

class UnreliableSimulation : public ::testing::TestWithParam<QpType> {
 protected:
  /// `share` is the profile's part in a thousand of the seeds.
  static UnreliableTotals run_seeds(UnreliableProfile profile, std::uint64_t share,
                                    PoolSet& pool_set = pools()) {
    profile.type = GetParam();
    UnreliableTotals t;
    const double seconds = sim::run_seeds(
        profile.name, seeds_or(kSeeds), share,
        [&](std::uint64_t seed) { return run_unreliable(seed, profile, pool_set, t); });
    std::printf("%s: %" PRIu64 " runs in %.1f s, %" PRIu64 " messages, delivered %" PRIu64
                ", twice %" PRIu64 ", partial WRITEs %" PRIu64 "; packets lost %" PRIu64
                ", abandoned %" PRIu64 ", out of sequence %" PRIu64 ", no receive %" PRIu64
                ", bad ICRC %" PRIu64 ", bad Q_Key %" PRIu64 ", SRQ limits %" PRIu64 "\n",
                profile.name, t.runs, seconds, t.messages, t.delivered, t.twice, t.partial, t.lost,
                t.abandoned, t.out_of_sequence, t.no_receive, t.bad_icrc, t.bad_qkey,
                t.limit_events);
    return t;
  }
  static bool is_uc() { return GetParam() == QpType::uc; }
};

TEST_P(UnreliableSimulation, CleanNetworkDeliversEverything) {
  const auto totals = run_seeds({.name = "clean", .exact = true, .in_order = true}, 150);
  EXPECT_EQ(totals.abandoned, 0u);
  EXPECT_EQ(totals.out_of_sequence, 0u);
  if (!is_uc()) expect_met(totals.bad_qkey);
}

TEST_P(UnreliableSimulation, CleanNetworkThatMustBeResolved) {
  (void)run_seeds(
      {.name = "resolution", .exact = true, .in_order = true, .resolve_neighbours = true}, 50);
}

TEST_P(UnreliableSimulation, LossDeliversASubsequence) {
  const auto totals =
      run_seeds({.name = "loss 5 %", .faults{.rates{.loss = 0.05}}, .in_order = true}, 150);
  expect_met(totals.lost);
  if (is_uc()) {
    expect_met(totals.abandoned);
    expect_met(totals.partial);
  }
}

TEST_P(UnreliableSimulation, CorruptionIsNeverDelivered) {
  const auto totals = run_seeds(
      {.name = "corruption 10 %", .faults{.rates{.corrupt = 0.1}}, .in_order = true}, 150);
  expect_met(totals.bad_icrc);
}

TEST_P(UnreliableSimulation, DuplicationMixesNothing) {
  const auto totals = run_seeds(
      {.name = "duplication 30 %", .faults{.rates{.duplicate = 0.3, .duplicate_max_ns = 100'000}}},
      150);
  expect_met(totals.twice);
}

TEST_P(UnreliableSimulation, ReorderingMixesNothing) {
  const auto totals = run_seeds(
      {.name = "reordering 20 %", .faults{.rates{.reorder = 0.2, .reorder_max_ns = 100'000}}}, 150);
  if (is_uc()) expect_met(totals.out_of_sequence);
}

TEST_P(UnreliableSimulation, EverythingAtOnce) {
  const auto totals = run_seeds({.name = "everything",
                                 .faults{.rates{.loss = 0.02,
                                                .corrupt = 0.01,
                                                .duplicate = 0.02,
                                                .reorder = 0.05,
                                                .reorder_max_ns = 2'000'000}},
                                 .scarce_receives = true},
                                150);
  expect_met(totals.no_receive);
}

TEST_P(UnreliableSimulation, ScarceReceivesLoseWholeMessages) {
  const auto totals =
      run_seeds({.name = "scarce receives", .in_order = true, .scarce_receives = true}, 100);
  expect_met(totals.no_receive);
}

TEST_P(UnreliableSimulation, SmallMbufs) {
  (void)run_seeds({.name = "small mbufs", .faults{.rates{.loss = 0.01}}, .in_order = true}, 50,
                  small_pools());
}

TEST_P(UnreliableSimulation, ScarceMbufs) {
  (void)run_seeds({.name = "scarce mbufs", .exact = true, .in_order = true}, 50, scarce_pools());
}

TEST_P(UnreliableSimulation, SharedReceiveQueues) {
  if (is_uc()) {
    GTEST_SKIP() << "UC has no SRQ";
  }
  const auto exact =
      run_seeds({.name = "SRQ, clean", .exact = true, .in_order = true, .srq = true}, 100);
  expect_met(exact.limit_events);
  const auto scarce = run_seeds({.name = "SRQ, P2, scarce receives",
                                 .faults{.rates{.loss = 0.01,
                                                .corrupt = 0.0001,
                                                .duplicate = 0.01,
                                                .reorder = 0.05,
                                                .reorder_max_ns = 2'000'000}},
                                 .scarce_receives = true,
                                 .srq = true},
                                150);
  expect_met(scarce.limit_events);
  expect_met(scarce.no_receive);
}

INSTANTIATE_TEST_SUITE_P(Services, UnreliableSimulation, ::testing::Values(QpType::uc, QpType::ud),
                         [](const auto& row) { return std::string(to_string(row.param)); });

}  // namespace
}  // namespace rockhopper::sim::unreliable_test
