// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Whole runs of random graphs by several workers, in virtual time. The judge is a sequential
// evaluation of the same plan, which knows nothing of the scheduler.
#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/dag_graph/sequential_evaluator.h"
#include "tests/dag_schedule/world.h"
#include "tests/sim/seeded_runs.h"

namespace rockhopper::sim {
namespace {

using dag::RunPhase;
using dag::test::GraphPlan;
using dag::test::RandomPlan;

constexpr std::uint64_t kSecond_ns = 1'000'000'000;

/// What is wrong with a run that should be complete; empty: nothing.
std::string judge(ScheduleWorld& world, const std::string& name, const GraphPlan& plan) {
  if (world.phase(name) != RunPhase::complete) {
    return fmt::format("the run is not complete: {}", world.describe());
  }
  const std::string expected = dag::test::evaluate(plan);
  const std::string digest = world.digest(name);
  if (digest != expected) {
    return fmt::format("digest {}, expected {}\n{}", digest, expected, world.describe());
  }
  return {};
}

/// Without losses each node is committed once.
std::string judge_commits(ScheduleWorld& world, const std::string& name, const GraphPlan& plan) {
  const auto commits = world.commits(name);
  for (const auto& [key, node] : plan.nodes) {
    const auto found = commits.find(key);
    const unsigned count = found == commits.end() ? 0 : found->second;
    if (count != 1) return fmt::format("node {} was committed {} times", key, count);
  }
  return {};
}

std::string run_once(const ScheduleConfig& config, const GraphPlan& plan, std::uint64_t limit_ns,
                     std::map<std::string, std::uint64_t>& totals) {
  ScheduleWorld world(config);
  world.submit("a", plan);
  if (!world.run_until([&] { return world.has_ended("a"); }, limit_ns)) {
    return fmt::format("the run has not ended: {}", world.describe());
  }
  for (const auto& [name, value] : world.counters()) totals[name] += value;
  if (auto wrong = judge(world, "a", plan); !wrong.empty()) return wrong;
  return judge_commits(world, "a", plan);
}

void print(const std::map<std::string, std::uint64_t>& totals) {
  for (const auto& [name, value] : totals) {
    if (value > 0) std::printf("%s %" PRIu64 "; ", name.c_str(), value);
  }
  std::printf("\n");
}

// DG-1 to DG-4, DG-10, DG-34, DG-35, DG-37, DG-40: one worker alone.
TEST(ScheduleSimulation, OneWorker) {
  std::map<std::string, std::uint64_t> totals;
  run_seeds("one worker", seeds_or(100), 100, [&](std::uint64_t seed) {
    const GraphPlan plan =
        dag::test::random_plan({.seed = seed, .nodes = 200, .constraints = false});
    return run_once({.seed = seed, .workers = 1}, plan, 10 * kSecond_ns, totals);
  });
  print(totals);
  expect_met(totals["nodes"]);
  expect_met(totals["inputs_cached"]);
}

// DG-3, DG-10 to DG-13, DG-34, DG-35, DG-38, DG-39: several workers with labels, edges with all
// constraints, outputs at several servers.
TEST(ScheduleSimulation, SeveralWorkers) {
  std::map<std::string, std::uint64_t> totals;
  run_seeds("several workers", seeds_or(100), 100, [&](std::uint64_t seed) {
    GraphPlan plan = dag::test::random_plan({.seed = seed, .nodes = 300});
    for (auto& [key, node] : plan.nodes) node.work_ns *= 20;
    return run_once(
        {.seed = seed, .servers = 2, .workers = 5, .labels = {{0, 1, 2, 3}, {0}, {1}, {2}, {3}}},
        plan, 10 * kSecond_ns, totals);
  });
  print(totals);
  expect_met(totals["steals_successful"]);
  expect_met(totals["pool_takes"]);
  expect_met(totals["inputs_read"]);
  expect_met(totals["outputs_elsewhere"]);
  expect_met(totals["unfit"]);
}

}  // namespace
}  // namespace rockhopper::sim
