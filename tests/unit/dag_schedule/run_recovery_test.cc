// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What lost workers leave is put right (DG-34 to DG-36).
#include "apps/services/dag/schedule/run_recovery.h"

#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/rng.h"
#include "tests/support/seed.h"
#include "tests/unit/dag_graph/graph_builders.h"
#include "tests/unit/dag_schedule/home_world.h"

namespace rockhopper::dag::test {
namespace {

using ::testing::UnorderedElementsAreArray;

constexpr ClientId kLost{4};
constexpr ClientId kAlive{5};
constexpr std::uint32_t kNobody = 99;

constexpr std::uint32_t number_of(ClientId client) { return static_cast<std::uint32_t>(client); }
constexpr NodeState running(std::uint32_t owner) {
  return {.phase = NodePhase::running, .owner = owner};
}
constexpr NodeState done(std::uint32_t owner) { return {.phase = NodePhase::done, .owner = owner}; }
constexpr NodeState released(std::uint32_t owner) {
  return {.phase = NodePhase::released, .owner = owner};
}
constexpr NodeState pending(std::uint32_t attempt) { return {.attempt = attempt}; }

/// A node before and after a worker has been lost.
struct Row {
  std::string_view key;
  NodeState before;
  std::uint64_t dependencies_before;
  NodeState after;
  std::uint64_t dependencies_after;
  bool in_pool;
};
struct Case {
  std::string_view name;
  std::vector<std::pair<std::string_view, std::string_view>> edges;
  std::vector<Row> rows;
};

const std::uint32_t lost = number_of(kLost);
const std::uint32_t alive = number_of(kAlive);

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases{
      {"a running node is pending again, once more",
       {{"a", "b"}},
       {{"a", running(lost), 0, pending(1), 0, true}, {"b", pending(0), 1, pending(0), 1, false}}},
      {"a running node of another one is not touched",
       {{"a", "b"}},
       {{"a", running(alive), 0, running(alive), 0, false},
        {"b", pending(0), 1, pending(0), 1, false}}},
      {"done, and nobody told",
       {{"a", "b"}, {"a", "c"}},
       {{"a", done(lost), 0, released(lost), 0, false},
        {"b", pending(0), 1, pending(0), 0, true},
        {"c", pending(0), 1, pending(0), 0, true}}},
      {"done, and the first of two told",
       {{"a", "b"}, {"a", "c"}},
       {{"a", done(lost), 0, released(lost), 0, false},
        {"b", pending(0), 0, pending(0), 0, true},
        {"c", pending(0), 1, pending(0), 0, true}}},
      {"done, and the first of two told and run already",
       {{"a", "b"}, {"a", "c"}},
       {{"a", done(lost), 0, released(lost), 0, false},
        {"b", running(alive), 0, running(alive), 0, false},
        {"c", pending(0), 1, pending(0), 0, true}}},
      {"another predecessor has not ended: it is still to be counted",
       {{"a", "c"}, {"b", "c"}},
       {{"a", done(lost), 0, released(lost), 0, false},
        {"b", running(alive), 0, running(alive), 0, false},
        {"c", pending(0), 2, pending(0), 1, false}}},
      {"the same, told already",
       {{"a", "c"}, {"b", "c"}},
       {{"a", done(lost), 0, released(lost), 0, false},
        {"b", running(alive), 0, running(alive), 0, false},
        {"c", pending(0), 1, pending(0), 1, false}}},
      {"another predecessor is released",
       {{"a", "c"}, {"b", "c"}},
       {{"a", done(lost), 0, released(lost), 0, false},
        {"b", released(alive), 0, released(alive), 0, false},
        {"c", pending(0), 1, pending(0), 0, true}}},
      {"of one worker, one predecessor done and one running",
       {{"a", "c"}, {"b", "c"}},
       {{"a", done(lost), 0, released(lost), 0, false},
        {"b", running(lost), 0, pending(1), 0, true},
        {"c", pending(0), 2, pending(0), 1, false}}},
      {"two done of the lost one",
       {{"a", "c"}, {"b", "c"}},
       {{"a", done(lost), 0, released(lost), 0, false},
        {"b", done(lost), 0, released(lost), 0, false},
        {"c", pending(0), 2, pending(0), 0, true}}},
      {"a living worker has done one: it has to be waited for, told or not",
       {{"a", "c"}, {"b", "c"}},
       {{"a", done(lost), 0, done(lost), 0, false},
        {"b", done(alive), 0, done(alive), 0, false},
        {"c", pending(0), 1, pending(0), 1, false}}},
      {"and only by those who come behind it",
       {{"a", "c"}, {"b", "c"}, {"d", "e"}},
       {{"a", done(lost), 0, done(lost), 0, false},
        {"b", done(alive), 0, done(alive), 0, false},
        {"c", pending(0), 2, pending(0), 2, false},
        {"d", done(lost), 0, released(lost), 0, false},
        {"e", pending(0), 1, pending(0), 0, true}}},
      {"a last node",
       {{"a", "b"}},
       {{"a", released(lost), 0, released(lost), 0, false},
        {"b", done(lost), 0, released(lost), 0, false}}},
      {"released by the lost one: all have been told",
       {{"a", "b"}, {"c", "b"}},
       {{"a", released(lost), 0, released(lost), 0, false},
        {"b", pending(0), 1, pending(0), 1, false},
        {"c", running(alive), 0, running(alive), 0, false}}},
      {"a ready node that the lost one had in its deque",
       {{"a", "b"}},
       {{"a", released(lost), 0, released(lost), 0, false},
        {"b", pending(2), 0, pending(2), 0, true}}},
      // What nobody may have written.
      {"an owner that is no worker",
       {{"a", "b"}, {"c", "d"}},
       {{"a", running(kNobody), 0, pending(1), 0, true},
        {"b", pending(0), 1, pending(0), 1, false},
        {"c", done(kNobody), 0, released(kNobody), 0, false},
        {"d", pending(0), 1, pending(0), 0, true}}},
      {"phases that there are not, or not in a run that goes on",
       {{"a", "b"}},
       {{"a", NodeState{.phase = static_cast<NodePhase>(77), .attempt = 4}, 0, pending(5), 0, true},
        {"b", NodeState{.phase = NodePhase::canceled}, 1, pending(1), 1, false}}},
      {"pending, and somebody's",
       {{"a", "b"}},
       {{"a", NodeState{.owner = alive}, 0, pending(1), 0, true},
        {"b", pending(0), 1, pending(0), 1, false}}},
      {"a node that was run has dependencies",
       {{"a", "b"}},
       {{"a", released(alive), 0, released(alive), 0, false},
        {"b", running(lost), 12345, pending(1), 0, true}}},
  };
  return kCases;
}

Graph graph_of(const Case& wanted) {
  GraphBuilder builder;
  for (const Row& row : wanted.rows) {
    builder.add_function(builder.add_node({.key = row.key}), kDigestFunction,
                         DigestArguments{}.emit());
  }
  for (const auto& [from, to] : wanted.edges) {
    builder.add_edge(from, to);
  }
  return *builder.build(digest_registry());
}

// DG-34, DG-36: states and dependencies, each before and after.
TEST(RunRecovery, EachState) {
  for (const Case& wanted : cases()) {
    SCOPED_TRACE(wanted.name);
    HomeWorld world({.slice = 1});
    const Graph graph = graph_of(wanted);
    ASSERT_TRUE(world.home->submit("r", graph_of(wanted), 1, {.failed = 1}));
    ASSERT_EQ(world.join(kLost).status, Status::ok);
    ASSERT_EQ(world.join(kAlive).status, Status::ok);
    world.turn();
    (void)world.take_all();
    for (const Row& row : wanted.rows) {
      const std::string key = "r/" + std::string(row.key);
      world.set_state(key, row.before);
      world.word(key, kDependenciesWord) = row.dependencies_before;
    }
    world.home->on_client_gone(kLost, world.now_ns);
    world.turn(20);
    std::vector<NodeIndex> ready;
    for (const Row& row : wanted.rows) {
      const std::string key = "r/" + std::string(row.key);
      EXPECT_EQ(world.state(key).bits(), row.after.bits()) << key;
      EXPECT_EQ(world.word(key, kDependenciesWord), row.dependencies_after) << key;
      if (row.in_pool) ready.push_back(*graph.find(row.key));
    }
    auto pool = world.take_all();
    std::sort(pool.begin(), pool.end());
    pool.erase(std::unique(pool.begin(), pool.end()), pool.end());
    EXPECT_THAT(pool, UnorderedElementsAreArray(ready));
  }
}

// DG-36: who waits for a living worker goes on when that one has released, or is lost too.
TEST(RunRecovery, WaitsForALivingWorker) {
  for (const bool is_lost_too : {false, true}) {
    HomeWorld world({});
    const auto graph =
        simple_builder({"a", "b", "c"}, {{"a", "c"}, {"b", "c"}}).build(digest_registry());
    ASSERT_TRUE(world.home->submit("r", *graph, 1, {.lost = kAttemptsMax}));
    ASSERT_EQ(world.join(kLost).status, Status::ok);
    ASSERT_EQ(world.join(kAlive).status, Status::ok);
    world.turn();
    (void)world.take_all();
    world.set_state("r/a", done(lost));
    world.set_state("r/b", done(alive));
    world.home->on_client_gone(kLost, world.now_ns);
    world.turn(1000);
    EXPECT_EQ(world.state("r/a"), done(lost));
    EXPECT_EQ(world.word("r/c", kDependenciesWord), 2u);
    EXPECT_GT(world.home->counters().reckonings_delayed.value(), 0u);
    if (is_lost_too) {
      world.home->on_client_gone(kAlive, world.now_ns);
    } else {
      world.word("r/c", kDependenciesWord) -= 1;
      world.set_state("r/b", released(alive));
    }
    world.turn(1000);
    EXPECT_EQ(world.state("r/a"), released(lost));
    EXPECT_EQ(world.state("r/b"), released(alive));
    EXPECT_EQ(world.word("r/c", kDependenciesWord), 0u);
    EXPECT_EQ(world.take_all().size(), 1u);
  }
}

// DG-3, DG-36: a time to wait begins anew, as nobody knows when the predecessor ended.
TEST(RunRecovery, WaitsAgainForATimeToPass) {
  constexpr std::uint64_t kWaitNs = 50'000'000;
  GraphBuilder builder = simple_builder({"a", "b", "c"}, {{"a", "c"}});
  builder.add_edge("a", "b", {.set = kData | kNotBefore, .not_before_ns = kWaitNs});
  HomeWorld world({});
  ASSERT_TRUE(
      world.home->submit("r", *builder.build(digest_registry()), 1, {.lost = kAttemptsMax}));
  ASSERT_EQ(world.join(kLost).status, Status::ok);
  world.turn();
  (void)world.take_all();
  world.set_state("r/a", done(lost));
  world.home->on_client_gone(kLost, world.now_ns);
  world.turn();
  EXPECT_EQ(world.word("r/c", kDependenciesWord), 0u);
  EXPECT_EQ(world.word("r/b", kDependenciesWord), 1u);
  EXPECT_EQ(world.state("r/a").phase, NodePhase::done);
  world.now_ns += kWaitNs;
  world.turn();
  EXPECT_EQ(world.word("r/b", kDependenciesWord), 0u);
  EXPECT_EQ(world.state("r/a").phase, NodePhase::released);
}

// DG-36: one that leaves by itself is like one that is lost.
TEST(RunRecovery, AWorkerThatLeaves) {
  HomeWorld world({});
  ASSERT_TRUE(world.home->submit("r",
                                 *simple_builder({"a", "b"}, {{"a", "b"}}).build(digest_registry()),
                                 1, {.lost = kAttemptsMax}));
  ASSERT_EQ(world.join(kLost).status, Status::ok);
  world.turn();
  (void)world.take_all();
  world.set_state("r/a", running(lost));
  ASSERT_EQ(world.ask(kLost, HomeRequest::leave).status, Status::ok);
  world.turn();
  EXPECT_EQ(world.state("r/a"), pending(1));
  EXPECT_EQ(world.run_named("r").lost, 1u);
  EXPECT_EQ(world.take_all().size(), 1u);
}

/// Workers that do in the memory, one operation after another and in any order among themselves,
/// what real ones do by RDMA; each can be lost between any two of its operations. It knows the plan
/// and checks at each claim that the node may begin.
class ModelWorkers {
 public:
  ModelWorkers(HomeWorld& world, const GraphPlan& plan, const Graph& graph, sim::Rng& rng)
      : world_(world), plan_(plan), rng_(rng) {
    const std::uint64_t first = world.run_named("r").first_incarnation;
    for (const auto& [key, node] : plan.nodes) {
      const MapPlace place = world.place("r/" + key);
      nodes_[static_cast<NodeIndex>(place.incarnation - first)] = {.key = key,
                                                                   .address = place.address};
      EXPECT_EQ(graph.key(static_cast<NodeIndex>(place.incarnation - first)), key);
      for (const auto& [from, constraints] : node.predecessors) {
        successors_[from].emplace_back(*graph.find(key), constraints);
      }
    }
    for (int i = 0; i < 3; ++i) {
      add();
    }
  }

  void step() {
    auto worker = workers_.begin();
    std::advance(worker, rng_.between(0, workers_.size() - 1));
    switch (rng_.between(0, 9)) {
      case 0:
        take(worker->second);
        break;
      case 1:
        steal(worker->second);
        break;
      case 2:
      case 3:
        claim(worker->first, worker->second);
        break;
      default:
        go_on(worker->first, worker->second);
        break;
    }
  }
  /// One is lost with all it has, and another one joins.
  void lose() {
    auto worker = workers_.begin();
    std::advance(worker, rng_.between(0, workers_.size() - 1));
    const ClientId client{worker->first};
    workers_.erase(worker);
    world_.home->on_client_gone(client, world_.now_ns);
    add();
  }
  [[nodiscard]] const std::map<std::string, unsigned>& ends() const { return ends_; }

 private:
  struct Node {
    std::string key;
    std::uint64_t address = 0;
  };
  struct Job {
    NodeIndex node = 0;
    bool done = false;
    std::size_t told = 0;  ///< edges, in the order of their times to wait
    bool counted = false;
  };
  struct Model {
    std::vector<DequeEntry> deque;
    std::vector<Job> jobs;
  };
  using Successor = std::pair<NodeIndex, EdgeConstraints>;

  void add() {
    const ClientId client{next_client_++};
    ASSERT_EQ(world_.join(client).status, Status::ok);
    workers_[static_cast<std::uint32_t>(client)] = {};
  }
  [[nodiscard]] std::uint64_t& word(NodeIndex node, unsigned which) {
    return world_.word(nodes_.at(node).address, which);
  }
  void take(Model& worker) {
    for (std::uint64_t left = rng_.between(1, 8); left > 0; --left) {
      const auto entry = world_.take(1);
      if (!entry) return;
      worker.deque.push_back(*entry);
    }
  }
  void steal(Model& worker) {
    auto victim = workers_.begin();
    std::advance(victim, rng_.between(0, workers_.size() - 1));
    auto& deque = victim->second.deque;
    if (&victim->second == &worker || deque.empty()) return;
    worker.deque.push_back(deque.front());
    deque.erase(deque.begin());
  }
  void claim(std::uint32_t client, Model& worker) {
    if (worker.deque.empty() || worker.jobs.size() >= 6) return;
    const DequeEntry entry = worker.deque.back();
    worker.deque.pop_back();
    ASSERT_EQ(entry.address, nodes_.at(entry.node).address);
    std::uint64_t& state = word(entry.node, kStateWord);
    const NodeState found = NodeState::from(state);
    if (found.phase != NodePhase::pending) return;
    state =
        NodeState{.phase = NodePhase::running, .attempt = found.attempt, .owner = client}.bits();
    worker.jobs.push_back({.node = entry.node});
    check_claim(nodes_.at(entry.node).key);
  }
  /// DG-3, DG-35: all that it depends on has ended, and long enough ago.
  void check_claim(const std::string& key) {
    for (const auto& [from, constraints] : plan_.nodes.at(key).predecessors) {
      ASSERT_TRUE(end_ns_.contains(from)) << key << " begins before " << from << " has ended";
      ASSERT_GE(world_.now_ns, end_ns_[from] + constraints.not_before_ns) << from << " -> " << key;
    }
    ASSERT_FALSE(end_ns_.contains(key)) << key << " has ended already";
  }
  void go_on(std::uint32_t client, Model& worker) {
    if (worker.jobs.empty()) return;
    const std::size_t which = rng_.between(0, worker.jobs.size() - 1);
    Job& job = worker.jobs[which];
    const std::string& key = nodes_.at(job.node).key;
    if (!job.done) {
      NodeState state = NodeState::from(word(job.node, kStateWord));
      ASSERT_EQ(state.owner, client) << key << " is not its own any more";
      state.phase = NodePhase::done;
      word(job.node, kStateWord) = state.bits();
      job.done = true;
      end_ns_[key] = world_.now_ns;
      ++ends_[key];
      auto& successors = successors_[key];
      std::stable_sort(successors.begin(), successors.end(),
                       [](const Successor& a, const Successor& b) {
                         return a.second.not_before_ns < b.second.not_before_ns;
                       });
      return;
    }
    const auto& successors = successors_[key];
    if (job.told < successors.size()) {
      const auto& [to, constraints] = successors[job.told];
      if (world_.now_ns < end_ns_[key] + constraints.not_before_ns) return;
      ++job.told;
      if (word(to, kDependenciesWord)-- == 1) {
        worker.deque.push_back({.address = nodes_.at(to).address, .node = to});
      }
      return;
    }
    if (!job.counted) {
      job.counted = true;
      return;
    }
    NodeState state = NodeState::from(word(job.node, kStateWord));
    ASSERT_EQ(state.owner, client);
    state.phase = NodePhase::released;
    word(job.node, kStateWord) = state.bits();
    worker.jobs.erase(worker.jobs.begin() + static_cast<std::ptrdiff_t>(which));
  }

  HomeWorld& world_;
  const GraphPlan& plan_;
  sim::Rng& rng_;
  std::map<NodeIndex, Node> nodes_;
  std::map<std::string, std::vector<Successor>> successors_;
  std::map<std::uint32_t, Model> workers_;
  std::uint32_t next_client_ = 10;
  std::map<std::string, std::uint64_t> end_ns_;
  std::map<std::string, unsigned> ends_;  ///< how often each node has ended
};

// DG-10, DG-34, DG-35, DG-36, DG-40: with workers lost at any moment, each node of a random graph
// ends once, none before all that it depends on, and the run is complete.
TEST(RunRecovery, WorkersLostAtAnyMoment) {
  for (std::uint32_t i = 0; i < 12; ++i) {
    const std::uint64_t seed = ::rockhopper::test::seed() + i;
    SCOPED_TRACE(seed);
    sim::Rng rng(seed);
    GraphPlan plan = random_plan({.seed = seed, .nodes = 150, .edges_per_node = 1 + i % 4});
    for (auto& [key, node] : plan.nodes) {
      for (auto& [from, constraints] : node.predecessors) {
        constraints.not_before_ns *= 100;
      }
    }
    const auto graph = build(plan, digest_registry());
    ASSERT_TRUE(graph);
    const std::uint32_t slice = rng.between32(1, 40);
    HomeWorld world({.slice = slice});
    ASSERT_TRUE(
        world.home->submit("r", *build(plan, digest_registry()), 1, {.lost = kAttemptsMax}));
    while (world.run_named("r").phase != RunPhase::running) {
      world.turn(1);
    }
    ModelWorkers workers(world, plan, *graph, rng);
    const std::uint64_t lose_every = rng.between(50, 2000);
    std::uint64_t steps = 0;
    for (; world.run_named("r").phase == RunPhase::running && steps < 2'000'000; ++steps) {
      world.now_ns += rng.between(1, 200);
      workers.step();
      if (rng.chance(30)) (void)world.home->progress(world.now_ns);
      if (rng.between(0, lose_every) == 0) workers.lose();
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(world.run_named("r").phase, RunPhase::complete) << "after " << steps << " steps";
    EXPECT_EQ(workers.ends().size(), plan.nodes.size());
    for (const auto& [key, count] : workers.ends()) {
      EXPECT_EQ(count, 1u) << key;
    }
    EXPECT_EQ(world.home->counters().bad_states.value(), 0u);
    EXPECT_EQ(world.home->counters().bad_dependencies.value(), 0u);
    EXPECT_EQ(world.run_named("r").completed, plan.nodes.size());
  }
}

// DG-36: whatever is in the control words, the home neither crashes nor loops, and cleans up.
TEST(RunRecovery, ScribbledWords) {
  sim::Rng rng(::rockhopper::test::seed());
  for (int i = 0; i < 20; ++i) {
    const auto graph = build(random_plan({.seed = rng.next(), .nodes = 60}), digest_registry());
    ASSERT_TRUE(graph);
    std::vector<std::string> keys;
    for (NodeIndex node = 0; node < graph->size(); ++node) {
      keys.push_back("r/" + std::string(graph->key(node)));
    }
    HomeWorld world({});
    ASSERT_TRUE(world.home->submit("r", *graph, 1, {.lost = kAttemptsMax}));
    ASSERT_EQ(world.join(kAlive).status, Status::ok);
    world.turn();
    for (int k = 0; k < 400; ++k) {
      const std::string& key = keys[rng.between(0, keys.size() - 1)];
      const NodeState state{.phase = static_cast<NodePhase>(rng.between(0, 6)),
                            .attempt = rng.between32(0, 0xffffff),
                            .owner = rng.between32(0, 6)};
      world.word(key, kStateWord) = rng.chance(20) ? rng.next() : state.bits();
      if (rng.chance(30)) world.word(key, kDependenciesWord) = rng.next();
      if (rng.chance(5)) {
        (void)world.join(kLost);
        world.home->on_client_gone(kLost, world.now_ns);
      }
      if (rng.chance(50)) (void)world.take_all();
      world.turn(1);
    }
    ASSERT_EQ(world.ask(kAlive, HomeRequest::cancel, "r").status, Status::ok);
    world.home->on_client_gone(kAlive, world.now_ns);
    world.turn();
    const RunPhase phase = world.run_named("r").phase;
    EXPECT_TRUE(phase == RunPhase::canceled || phase == RunPhase::complete);
    ASSERT_EQ(world.ask(kAlive, HomeRequest::drop, "r").status, Status::ok);
    world.turn();
    EXPECT_EQ(world.store->size(), 0u);
  }
}

}  // namespace
}  // namespace rockhopper::dag::test
