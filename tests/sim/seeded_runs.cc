// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/sim/seeded_runs.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include <gtest/gtest.h>

namespace rockhopper::sim {
namespace {

/// 0: not given.
std::uint64_t the_seed() { return number_or("ROCKHOPPER_SEED", 0); }

}  // namespace

PoolSet& pools() {
  // Never freed: the EAL ends before static objects do.
  static auto* const set = new PoolSet(4095, 4096 + 256, 8191);
  return *set;
}

PoolSet& small_pools() {
  static auto* const set = new PoolSet(16383, 192, 32767);
  return *set;
}

PoolSet& scarce_pools() {
  static auto* const set = new PoolSet(24, 4096 + 256, 4095);
  return *set;
}

std::uint64_t number_or(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

std::uint64_t seeds_or(std::uint64_t otherwise) {
  const char* text = std::getenv("ROCKHOPPER_SEEDS");
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const std::uint64_t number = std::strtoull(text, &end, 0);
  return *end == '%' ? otherwise * number / 100 : number;
}

bool single_seed() { return the_seed() != 0; }

void expect_met(std::uint64_t count) {
  if (!single_seed()) {
    EXPECT_GT(count, 0u);
  }
}

double run_seeds(const char* profile, std::uint64_t seeds, std::uint64_t share,
                 const std::function<std::string(std::uint64_t seed)>& run) {
  const auto start = std::chrono::steady_clock::now();
  const std::uint64_t first = single_seed() ? the_seed() : 1;
  const std::uint64_t count = single_seed() ? 1 : std::max<std::uint64_t>(1, seeds * share / 1000);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const std::string error = run(seed);
    if (!error.empty()) {
      const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
      ADD_FAILURE() << profile << ", seed " << seed << ": " << error
                    << "\n  repeat with ROCKHOPPER_SEED=" << seed
                    << " and --gtest_filter=" << test->test_suite_name() << "." << test->name();
      break;
    }
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace rockhopper::sim
