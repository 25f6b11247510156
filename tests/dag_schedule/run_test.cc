// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Whole runs of random graphs by several workers, in virtual time. The judge is a sequential
// evaluation of the same plan, which knows nothing of the scheduler.
#include <algorithm>
#include <array>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <random>

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

constexpr std::uint64_t kSecondNs = 1'000'000'000;

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
  // The workers have to hear of it too.
  (void)world.run_until([&] { return world.commits("a").size() == plan.nodes.size(); },
                        kSecondNs / 5);
  for (const auto& [name, value] : world.counters()) {
    totals[name] += value;
  }
  if (auto wrong = judge(world, "a", plan); !wrong.empty()) return wrong;
  if (auto wrong = world.check_times("a"); !wrong.empty()) return wrong;
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
  run_seeds("one worker", seeds_or(10'000), 10, [&](std::uint64_t seed) {
    const GraphPlan plan =
        dag::test::random_plan({.seed = seed, .nodes = 200, .constraints = false});
    return run_once({.seed = seed, .workers = 1}, plan, 10 * kSecondNs, totals);
  });
  print(totals);
  expect_met(totals["nodes"]);
  expect_met(totals["inputs_cached"]);
}

// A worker holds up its client's lease at the home.
TEST(ScheduleSimulation, AWorkersHomeIsAServerOfItsClient) {
  ScheduleWorld world({});
  auto& node = world.worker(0);
  const std::uint16_t servers = node.client->servers();
  const auto made =
      dag::Worker::create({.engine = node.endpoint->engine(),
                           .endpoint = node.endpoint->dc(),
                           .client = *node.client,
                           .home = servers,
                           .home_av = node.way_to(world.server(0)),
                           .grant = {.client = 1, .application_bytes = 1 << 16},
                           .outputs = *dag::Placement::create(dag::PlacementPolicy::hash, servers),
                           .executor = node.executor,
                           .listener = node},
                          {.name = "stray"});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::invalid_argument);
}

// DG-3, DG-10 to DG-13, DG-34, DG-35, DG-38, DG-39: several workers with labels, edges with all
// constraints, outputs at several servers.
TEST(ScheduleSimulation, SeveralWorkers) {
  std::map<std::string, std::uint64_t> totals;
  run_seeds("several workers", seeds_or(10'000), 10, [&](std::uint64_t seed) {
    GraphPlan plan = dag::test::random_plan({.seed = seed, .nodes = 300});
    for (auto& [key, node] : plan.nodes) {
      node.work_ns *= 20;
    }
    return run_once(
        {.seed = seed, .servers = 2, .workers = 5, .labels = {{0, 1, 2, 3}, {0}, {1}, {2}, {3}}},
        plan, 10 * kSecondNs, totals);
  });
  print(totals);
  expect_met(totals["steals_successful"]);
  expect_met(totals["pool_takes"]);
  expect_met(totals["inputs_read"]);
  expect_met(totals["outputs_elsewhere"]);
  expect_met(totals["unfit"]);
}

// The same, on a path that loses, damages, repeats and reorders.
TEST(ScheduleSimulation, BadPath) {
  std::map<std::string, std::uint64_t> totals;
  run_seeds("bad path", seeds_or(10'000), 5, [&](std::uint64_t seed) {
    GraphPlan plan = dag::test::random_plan({.seed = seed, .nodes = 200});
    for (auto& [key, node] : plan.nodes) {
      node.work_ns *= 20;
    }
    return run_once({.seed = seed,
                     .servers = 2,
                     .workers = 4,
                     .faults = {.loss = 0.01, .duplicate = 0.01, .reorder = 0.01},
                     .labels = {{0, 1, 2, 3}, {0}, {1}, {2}}},
                    plan, 100 * kSecondNs, totals);
  });
  print(totals);
  expect_met(totals["steals_successful"]);
}

// DG-35, DG-36: workers are killed while they run nodes; whatever they have left undone, others do.
TEST(ScheduleSimulation, KilledWorkers) {
  std::map<std::string, std::uint64_t> totals;
  run_seeds("killed workers", seeds_or(10'000), 10, [&](std::uint64_t seed) -> std::string {
    GraphPlan plan = dag::test::random_plan({.seed = seed, .nodes = 300});
    for (auto& [key, node] : plan.nodes) {
      node.work_ns *= 100;
    }
    ScheduleWorld world(
        {.seed = seed, .servers = 2, .workers = 5, .labels = {{0, 1, 2, 3}, {0}, {1}, {2}, {3}}});
    world.submit("a", plan);
    std::mt19937_64 random(seed);
    for (unsigned worker = 1; worker < 4; ++worker) {
      const std::uint64_t after_ns = random() % 800'000;
      (void)world.run_until([&] { return world.has_ended("a"); }, after_ns);
      world.kill(worker);
    }
    if (!world.run_until([&] { return world.has_ended("a"); }, 10 * kSecondNs)) {
      return fmt::format("the run has not ended: {}", world.describe());
    }
    for (const auto& [name, value] : world.counters()) {
      totals[name] += value;
    }
    world.home().visit_counters(
        [](void* to, const char* name, std::uint64_t value) {
          (*static_cast<std::map<std::string, std::uint64_t>*>(to))[name] += value;
        },
        &totals);
    return judge(world, "a", plan);
  });
  print(totals);
  expect_met(totals["nodes_put_back"]);
  expect_met(totals["claims_repeated"]);
}

// DG-35, DG-36: workers stand still for longer than their lease, are fenced, and join again.
TEST(ScheduleSimulation, FencedWorkersJoinAgain) {
  std::map<std::string, std::uint64_t> totals;
  std::uint64_t losses = 0;
  run_seeds("fenced workers", seeds_or(10'000), 5, [&](std::uint64_t seed) -> std::string {
    GraphPlan plan = dag::test::random_plan({.seed = seed, .nodes = 300, .constraints = false});
    for (auto& [key, node] : plan.nodes) {
      node.work_ns *= 1000;
    }
    ScheduleWorld world({.seed = seed, .workers = 4});
    world.submit("a", plan);
    std::mt19937_64 random(seed);
    for (unsigned i = 0; i < 3; ++i) {
      const unsigned worker = random() % 4;
      (void)world.run_until([&] { return world.has_ended("a"); }, random() % 10'000'000);
      world.pause(worker, true);
      // Longer than its lease, by far.
      (void)world.run_until([] { return false; }, 100'000'000);
      world.pause(worker, false);
    }
    const auto joined = [&] { return world.home().worker_count() == world.workers(); };
    if (!world.run_until(joined, 10 * kSecondNs)) {
      return fmt::format("{} workers are there", world.home().worker_count());
    }
    if (!world.run_until([&] { return world.has_ended("a"); }, 10 * kSecondNs)) {
      return fmt::format("the run has not ended: {}", world.describe());
    }
    for (const auto& [name, value] : world.counters()) {
      totals[name] += value;
    }
    for (unsigned i = 0; i < world.workers(); ++i) {
      losses += world.worker(i).losses;
    }
    return judge(world, "a", plan);
  });
  print(totals);
  expect_met(losses);
}

// DG-35: a node whose task fails is tried again by anybody.
TEST(ScheduleSimulation, FailedTasksAreTriedAgain) {
  std::map<std::string, std::uint64_t> totals;
  run_seeds("failures", seeds_or(10'000), 5, [&](std::uint64_t seed) -> std::string {
    GraphPlan plan = dag::test::random_plan({.seed = seed, .nodes = 100, .constraints = false});
    for (auto& [key, node] : plan.nodes) {
      node.work_ns *= 20;
    }
    ScheduleWorld world({.seed = seed, .workers = 3});
    std::map<std::string, unsigned> failures;
    for (unsigned i = 0; i < 3; ++i) {
      world.worker(i).executor.failure = [&failures](std::string_view key) -> std::string {
        unsigned& count = failures[std::string(key)];
        return key.size() % 3 == 0 && ++count < 3 ? "not this time" : "";
      };
    }
    world.submit("a", plan);
    if (!world.run_until([&] { return world.has_ended("a"); }, 10 * kSecondNs)) {
      return fmt::format("the run has not ended: {}", world.describe());
    }
    for (const auto& [name, value] : world.counters()) {
      totals[name] += value;
    }
    return judge(world, "a", plan);
  });
  print(totals);
  expect_met(totals["failed"]);
}

// DG-3: nodes that have to run where their predecessor did.
TEST(ScheduleSimulation, SameWorker) {
  std::map<std::string, std::uint64_t> totals;
  run_seeds("same worker", seeds_or(10'000), 2, [&](std::uint64_t seed) -> std::string {
    GraphPlan plan{.seed = seed, .nodes = {}};
    std::mt19937_64 random(seed);
    std::map<std::string, std::string> follows;
    for (unsigned i = 0; i < 40; ++i) {
      for (unsigned step = 0; step < 5; ++step) {
        const std::string key = fmt::format("{}-{}", i, step);
        auto& node = plan.nodes[key];
        node = {.output_bytes = {40}, .predecessors = {}, .work_ns = random() % 30'000};
        if (step == 0) continue;
        const std::string before = fmt::format("{}-{}", i, step - 1);
        node.predecessors[before] = {.set = dag::kData | dag::kAffinity,
                                     .affinity = dag::kSameWorker};
        follows[key] = before;
        // Somebody else is the last one to make it ready.
        if (i > 0) node.predecessors[fmt::format("{}-{}", i - 1, step - 1)] = {};
      }
    }
    ScheduleWorld world({.seed = seed, .workers = 4});
    world.submit("a", plan);
    const auto done = [&] {
      return world.has_ended("a") && world.commits("a").size() == plan.nodes.size();
    };
    if (!world.run_until(done, 10 * kSecondNs)) {
      return fmt::format("the run has not ended: {}", world.describe());
    }
    for (const auto& [name, value] : world.counters()) {
      totals[name] += value;
    }
    for (const auto& [key, before] : follows) {
      for (unsigned i = 0; i < world.workers(); ++i) {
        const auto& commits = world.worker(i).commits;
        if (commits.count("a/" + key) != commits.count("a/" + before)) {
          return fmt::format("{} did not run where {} did", key, before);
        }
      }
    }
    return judge(world, "a", plan);
  });
  print(totals);
  expect_met(totals["unfit"]);
}

// DG-41: of three runs at once one is canceled. It stops within the length of a task, the others
// are complete, and a new run takes its name after it has been dropped.
TEST(ScheduleSimulation, Cancel) {
  std::map<std::string, std::uint64_t> totals;
  run_seeds("cancel", seeds_or(10'000), 2, [&](std::uint64_t seed) -> std::string {
    std::map<std::string, GraphPlan> plans;
    ScheduleWorld world({.seed = seed, .workers = 4});
    std::mt19937_64 random(seed);
    for (const char* name : {"a", "b", "c"}) {
      plans[name] = dag::test::random_plan({.seed = random(), .nodes = 200, .constraints = false});
      for (auto& [key, node] : plans[name].nodes) {
        node.work_ns *= 100;
      }
      world.submit(name, plans[name], static_cast<std::uint32_t>(random() % dag::kPriorityClasses));
    }
    (void)world.run_until([] { return false; }, 500'000 + random() % 1'000'000);
    if (world.has_ended("b")) return {};
    world.cancel("b");
    // What runs, and a look at the board.
    if (!world.run_until([&] { return world.has_ended("b"); }, 6'000'000)) {
      return fmt::format("the run was not canceled: {}", world.describe());
    }
    if (world.phase("b") != RunPhase::canceled) return "the run was not canceled";
    // Workers hear a little later of what they have committed.
    (void)world.run_until([] { return false; }, 100'000);
    const std::size_t count = world.commits("b").size();
    if (!world.run_until([&] { return world.has_ended("a") && world.has_ended("c"); },
                         10 * kSecondNs)) {
      return fmt::format("the runs have not ended: {}", world.describe());
    }
    if (world.commits("b").size() != count) return "the canceled run went on";
    for (const auto& [name, value] : world.counters()) {
      totals[name] += value;
    }
    for (const char* name : {"a", "c"}) {
      if (auto wrong = judge(world, name, plans[name]); !wrong.empty()) return wrong;
    }
    return {};
  });
  print(totals);
  expect_met(totals["entries_dropped"] + totals["given_up"]);
}

// DG-40, DG-41: empty tasks, an executor that never says no, and several windows.
TEST(ScheduleSimulation, EmptyTasks) {
  for (const std::uint16_t window : std::array<std::uint16_t, 4>{1, 4, 32, 256}) {
    GraphPlan plan = dag::test::random_plan({.seed = window, .nodes = 2000, .constraints = false});
    ScheduleWorld world(
        {.seed = 1, .workers = 1, .executor_slots = 0, .worker = {.window = window}});
    const std::uint64_t begin_ns = world.now_ns();
    world.submit("a", plan);
    ASSERT_TRUE(world.run_until([&] { return world.has_ended("a"); }, 10 * kSecondNs))
        << world.describe();
    EXPECT_EQ(judge(world, "a", plan), "");
    std::printf("window %u: %" PRIu64 " ns a node\n", window,
                (world.now_ns() - begin_ns) / plan.nodes.size());
  }
}

// DG-36: workers that leave, at once or when they have ended what they run, and those that come
// later.
TEST(ScheduleSimulation, WorkersLeave) {
  std::map<std::string, std::uint64_t> totals;
  run_seeds("leaving", seeds_or(10'000), 2, [&](std::uint64_t seed) -> std::string {
    GraphPlan plan = dag::test::random_plan({.seed = seed, .nodes = 300, .constraints = false});
    for (auto& [key, node] : plan.nodes) {
      node.work_ns *= 50;
    }
    ScheduleWorld world({.seed = seed, .workers = 4});
    world.submit("a", plan);
    std::mt19937_64 random(seed);
    (void)world.run_until([] { return false; }, 100'000 + random() % 500'000);
    dag::Worker& draining = *world.worker(0).worker;
    dag::Worker& leaving = *world.worker(1).worker;
    draining.drain();
    leaving.leave();
    world.wake();
    if (!world.run_until([&] { return draining.idle() && leaving.idle(); }, kSecondNs)) {
      return fmt::format("workers are not idle: {}", world.describe());
    }
    const auto commits = world.worker(0).commits.size();
    draining.leave();
    world.wake();
    if (!world.run_until([&] { return world.has_ended("a"); }, 10 * kSecondNs)) {
      return fmt::format("the run has not ended: {}", world.describe());
    }
    if (world.worker(0).commits.size() != commits) return "a worker that has drained ran a node";
    if (!world.run_until([&] { return world.home().worker_count() == 2; }, kSecondNs)) {
      return fmt::format("{} workers are there", world.home().worker_count());
    }
    for (const auto& [name, value] : world.counters()) {
      totals[name] += value;
    }
    return judge(world, "a", plan);
  });
  print(totals);
  expect_met(totals["claims_repeated"]);
}

/// One node, and behind it so many that do not depend on each other.
GraphPlan fan(std::uint64_t seed, unsigned nodes, std::uint64_t work_ns) {
  GraphPlan plan{.seed = seed, .nodes = {}};
  plan.nodes["root"] = {.output_bytes = {32}, .predecessors = {}, .work_ns = work_ns};
  for (unsigned i = 0; i < nodes; ++i) {
    plan.nodes[fmt::format("leaf-{}", i)] = {
        .output_bytes = {32}, .predecessors = {{"root", {}}}, .work_ns = work_ns};
  }
  return plan;
}

// DG-11, DG-12, DG-13, DG-38: all nodes become ready at one worker of eight. The others steal, and
// all of them are busy for about as long, nearly as long as it takes at least.
TEST(ScheduleSimulation, StealingDistributesEvenly) {
  constexpr unsigned kWorkers = 8;
  constexpr unsigned kNodes = 4000;
  for (const std::uint64_t work_ns : {20'000, 200'000, 2'000'000}) {
    const GraphPlan plan = fan(1, kNodes, work_ns);
    ScheduleWorld world({.seed = 1, .workers = kWorkers});
    const std::uint64_t begin_ns = world.now_ns();
    world.submit("a", plan);
    ASSERT_TRUE(world.run_until([&] { return world.has_ended("a"); }, 100 * kSecondNs))
        << world.describe();
    const auto makespan_ns = static_cast<double>(world.now_ns() - begin_ns);
    EXPECT_EQ(judge(world, "a", plan), "");
    double sum = 0;
    double squares = 0;
    for (unsigned i = 0; i < kWorkers; ++i) {
      const auto busy = static_cast<double>(world.worker(i).executor.busy_ns);
      sum += busy;
      squares += busy * busy;
    }
    const double mean = sum / kWorkers;
    const double deviation = std::sqrt(std::max(0.0, squares / kWorkers - mean * mean)) / mean;
    const double least_ns = sum / kWorkers + 2.0 * static_cast<double>(work_ns);
    std::printf("work %" PRIu64 " ns: deviation %.3f, makespan %.3f of the least\n", work_ns,
                deviation, makespan_ns / least_ns);
    print(world.counters());
    EXPECT_LE(deviation, 0.1);
    EXPECT_LE(makespan_ns, 1.25 * least_ns);
  }
}

}  // namespace
}  // namespace rockhopper::sim
