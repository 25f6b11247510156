// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Unreliable connections and datagrams under seeded faults: what arrives is what was sent, whole,
// and every request completes (docs/testing.md).
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/sim/unreliable_run.h"

namespace rockhopper::sim {
namespace {

using roce::QpType;

std::uint64_t environment_number(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

PoolSet& pools() {
  // Never freed: the EAL ends before static objects do.
  static auto* const set = new PoolSet(4095, 4096 + 256, 8191);
  return *set;
}

/// The same packets in chains of small mbufs, on the way out and in.
PoolSet& small_pools() {
  static auto* const set = new PoolSet(16383, 192, 32767);
  return *set;
}

/// Less than what is under way at times.
PoolSet& scarce_pools() {
  static auto* const set = new PoolSet(24, 4096 + 256, 4095);
  return *set;
}

class UnreliableSimulation : public ::testing::TestWithParam<QpType> {
 protected:
  /// Runs the profile from many seeds, or from the one of ROCKHOPPER_SEED. `share` is the profile's
  /// part in a thousand of ROCKHOPPER_SEEDS.
  static UnreliableTotals run_seeds(UnreliableProfile profile, std::uint64_t share,
                                    PoolSet& pool_set = pools()) {
    profile.type = GetParam();
    const auto start = std::chrono::steady_clock::now();
    std::uint64_t first = 1;
    std::uint64_t count =
        std::max<std::uint64_t>(1, environment_number("ROCKHOPPER_SEEDS", 5'000) * share / 1000);
    if (const std::uint64_t only = environment_number("ROCKHOPPER_SEED", 0); only != 0) {
      first = only;
      count = 1;
    }
    UnreliableTotals t;
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
      const std::string error = run_unreliable(seed, profile, pool_set, t);
      if (!error.empty()) {
        const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
        ADD_FAILURE() << profile.name << ", seed " << seed << ": " << error
                      << "\n  repeat with ROCKHOPPER_SEED=" << seed
                      << " and --gtest_filter=" << test->test_suite_name() << "." << test->name();
        break;
      }
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    std::printf("%s: %" PRIu64 " runs in %.1f s, %" PRIu64 " messages, delivered %" PRIu64
                ", twice %" PRIu64 ", partial WRITEs %" PRIu64 "; packets lost %" PRIu64
                ", abandoned %" PRIu64 ", out of sequence %" PRIu64 ", no receive %" PRIu64
                ", bad ICRC %" PRIu64 ", bad Q_Key %" PRIu64 "\n",
                profile.name, t.runs, elapsed.count(), t.messages, t.delivered, t.twice, t.partial,
                t.lost, t.abandoned, t.out_of_sequence, t.no_receive, t.bad_icrc, t.bad_qkey);
    return t;
  }
  /// A hazard that a profile is about must have been met, or the profile proves nothing.
  static void expect_met(std::uint64_t count) {
    if (environment_number("ROCKHOPPER_SEED", 0) == 0) {
      EXPECT_GT(count, 0u);
    }
  }
  static bool is_uc() { return GetParam() == QpType::uc; }
};

TEST_P(UnreliableSimulation, CleanNetworkDeliversEverything) {
  const auto totals = run_seeds({.name = "clean", .exact = true, .in_order = true}, 150);
  EXPECT_EQ(totals.abandoned, 0u);
  EXPECT_EQ(totals.out_of_sequence, 0u);
  if (!is_uc()) {
    expect_met(totals.bad_qkey);
  }
}

TEST_P(UnreliableSimulation, CleanNetworkThatMustBeResolved) {
  static_cast<void>(run_seeds(
      {.name = "resolution", .exact = true, .in_order = true, .resolve_neighbours = true}, 50));
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
  if (is_uc()) {
    expect_met(totals.out_of_sequence);
  }
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
  static_cast<void>(run_seeds(
      {.name = "small mbufs", .faults{.rates{.loss = 0.01}}, .in_order = true}, 50, small_pools()));
}

TEST_P(UnreliableSimulation, ScarceMbufs) {
  static_cast<void>(
      run_seeds({.name = "scarce mbufs", .exact = true, .in_order = true}, 50, scarce_pools()));
}

INSTANTIATE_TEST_SUITE_P(Services, UnreliableSimulation, ::testing::Values(QpType::uc, QpType::ud),
                         [](const auto& row) { return std::string(to_string(row.param)); });

}  // namespace
}  // namespace rockhopper::sim
