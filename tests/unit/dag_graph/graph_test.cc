// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Graphs as they are built: what is in them, and what is refused before anything is stored.
#include "apps/services/dag/graph/graph.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/seed.h"
#include "tests/unit/dag_graph/graph_builders.h"

namespace rockhopper::dag::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// DG-1, DG-3: nodes and edges are found again, in the order of the keys whatever they were added
// in.
TEST(Graph, HasWhatWasAdded) {
  auto builder = simple_builder({"c", "a", "b"}, {{"c", "b"}, {"a", "b"}});
  builder.add_edge("c", "a", {.set = kOrderOnly | kNotBefore, .not_before_ns = 7});
  const auto graph = builder.build(digest_registry());
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->size(), 3u);
  EXPECT_EQ(graph->edges(), 3u);
  const NodeIndex b = graph->find("b").value();
  const NodeIndex c = graph->find("c").value();
  EXPECT_EQ(graph->key(b), "b");
  EXPECT_FALSE(graph->find("d"));
  EXPECT_FALSE(graph->find(""));
  std::vector<std::string_view> predecessors;
  for (const Predecessor& p : graph->predecessors(b)) {
    predecessors.push_back(graph->key(p.from));
    EXPECT_EQ(graph->edge(p.edge).to, b);
  }
  EXPECT_THAT(predecessors, ElementsAre("a", "c"));
  ASSERT_EQ(graph->edges_of(c).size(), 2u);
  EXPECT_EQ(graph->edges_of(c)[0].constraints.not_before_ns, 7u);
  std::vector<std::string_view> order;
  for (const NodeIndex node : graph->topological_order()) {
    order.push_back(graph->key(node));
  }
  EXPECT_THAT(order, ElementsAre("c", "a", "b"));
}

// DG-2: a node is a sequence of tasks, whichever order the nodes' tasks are added in.
TEST(Graph, TasksOfANodeKeepTheirOrder) {
  GraphBuilder builder;
  const NodeIndex first = builder.add_node({.key = "first", .work_ns = 5, .priority = -3});
  const NodeIndex second = builder.add_node({.key = "second"});
  const std::array<std::string_view, 3> words{"echo", "", "two words"};
  const auto digest = DigestArguments{.seed = 9, .output_bytes = 40}.emit();
  builder.add_command(first, words);
  builder.add_function(second, kDigestFunction, digest);
  builder.add_function(first, kDigestFunction, digest);
  const auto graph = builder.build(digest_registry());
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->work_ns(first), 5u);
  EXPECT_EQ(graph->priority(first), -3);
  ASSERT_EQ(graph->tasks_of(first), 2u);
  const Task command = graph->task(first, 0);
  EXPECT_EQ(command.kind, TaskKind::command);
  EXPECT_THAT(parse_command(command.arguments).value(), ElementsAre("echo", "", "two words"));
  const Task function = graph->task(first, 1);
  EXPECT_EQ(function.function, kDigestFunction);
  EXPECT_EQ(DigestArguments::parse(function.arguments)->output_bytes, 40u);
  EXPECT_EQ(graph->tasks_of(second), 1u);
  EXPECT_EQ(graph->tasks(), 3u);
}

// DG-33: the nodes of a cycle are named; what only hangs on it is not.
TEST(Graph, RefusesCyclesByName) {
  EXPECT_EQ(refusal(simple_builder({"a"}, {{"a", "a"}})), "the graph has a cycle: 'a' -> 'a'");
  EXPECT_EQ(refusal(simple_builder(
                {"before", "c", "a", "b", "behind"},
                {{"before", "a"}, {"a", "b"}, {"b", "c"}, {"c", "a"}, {"c", "behind"}})),
            "the graph has a cycle: 'a' -> 'b' -> 'c' -> 'a'");
  GraphBuilder ring = simple_builder({}, {});
  constexpr NodeIndex kNodes = 1000;
  for (NodeIndex i = 0; i < kNodes; ++i) {
    ring.add_function(ring.add_node({.key = fmt::format("{:04}", i)}), kDigestFunction);
    ring.add_edge(i, (i + 1) % kNodes);
  }
  const std::string said = refusal(std::move(ring));
  EXPECT_THAT(said, HasSubstr("'0000' -> '0001' -> "));
  EXPECT_THAT(said, HasSubstr("... (984 more) -> '0000'"));
}

// DG-33: any edge against the order of a large graph makes a cycle.
TEST(Graph, RefusesACycleInALargeGraph) {
  const std::uint64_t seed = rockhopper::test::seed();
  GraphPlan plan = random_plan({.seed = seed, .nodes = 20'000});
  const auto right = build(plan, digest_registry());
  ASSERT_TRUE(right) << right.error().message;
  // From one that depends on another, back to the other.
  NodeIndex to = right->topological_order().front();
  NodeIndex from = to;
  while (!right->edges_of(from).empty()) {
    from = right->edges_of(from).back().to;
  }
  if (from == to) {
    GTEST_SKIP() << "the first node has no successor";
  }
  plan.nodes.at(std::string(right->key(to)))
      .predecessors.emplace(right->key(from), EdgeConstraints{});
  const auto graph = build(plan, digest_registry());
  ASSERT_FALSE(graph);
  EXPECT_THAT(graph.error().message, HasSubstr("the graph has a cycle: "));
}

// DG-33, DG-42: each mistake has its line.
TEST(Graph, RefusesMistakesWithOneLineEach) {
  EXPECT_EQ(refusal(GraphBuilder()), "the graph has no nodes");
  EXPECT_EQ(refusal(simple_builder({"a", "b", "a"}, {})), "there are two nodes with the key 'a'");
  EXPECT_EQ(refusal(simple_builder({"a"}, {{"a", "zz"}})),
            "edge 'a' -> 'zz': there is no node 'zz'");
  EXPECT_EQ(refusal(simple_builder({"a"}, {{"zz", "a"}})),
            "edge 'zz' -> 'a': there is no node 'zz'");
  EXPECT_EQ(refusal(simple_builder({"a", "b"}, {{"a", "b"}, {"a", "b"}})),
            "edge 'a' -> 'b' is there twice");
  EXPECT_THAT(refusal(simple_builder({""}, {})), HasSubstr("its key has 0 bytes"));

  auto dangling = simple_builder({"a"}, {});
  dangling.add_edge(NodeIndex{0}, NodeIndex{1});
  EXPECT_EQ(refusal(dangling), "edge 'a' -> node 1: there are only 1 nodes");
  dangling = simple_builder({"a"}, {});
  dangling.add_edge(NodeIndex{5}, NodeIndex{0});
  EXPECT_EQ(refusal(dangling), "edge node 5 -> node 0: there are only 1 nodes");

  GraphBuilder no_task;
  no_task.add_node({.key = "idle"});
  EXPECT_EQ(refusal(no_task), "node 'idle' has no task");
}

// DG-42: an unknown function or version is refused when the graph is made.
TEST(Graph, RefusesUnknownFunctions) {
  auto unknown = simple_builder({"a"}, {});
  unknown.add_function(0, {77, 1});
  EXPECT_EQ(refusal(unknown), "node 'a', task 1: function 77 is not known");
  auto version = simple_builder({"a"}, {});
  version.add_function(0, {kDigestFunction.number, 9});
  EXPECT_EQ(refusal(version), "node 'a', task 1: function 1 ('digest') has no version 9; known: 1");
  GraphBuilder command;
  command.add_command(command.add_node({.key = "c"}), std::array<std::string_view, 1>{""});
  EXPECT_EQ(refusal(command), "node 'c', task 0: a command has no program");
}

// DG-3: constraints that contradict each other, and those that nobody could meet.
TEST(Graph, RefusesWrongConstraints) {
  const std::pair<EdgeConstraints, std::string_view> kCases[] = {
      {{.set = 0}, "has no constraint"},
      {{.set = 1 << 4}, "has a constraint that is not known"},
      {{.set = kData | kOrderOnly}, "is for data and for the order only"},
      {{.set = kData, .affinity = 3}, "has a label and no affinity"},
      {{.set = kData, .not_before_ns = 3}, "has a time to wait and no constraint for it"},
  };
  for (const auto& [constraints, said] : kCases) {
    auto builder = simple_builder({"a", "b"}, {});
    builder.add_edge("a", "b", constraints);
    EXPECT_EQ(refusal(builder), fmt::format("edge 'a' -> 'b' {}", said));
  }
  auto builder = simple_builder({"a", "b", "c"}, {});
  builder.add_edge("a", "c", {.set = kData | kAffinity, .affinity = kSameWorker});
  builder.add_edge("b", "c", {.set = kOrderOnly | kAffinity, .affinity = 3});
  EXPECT_EQ(refusal(builder), "");
  builder = simple_builder({"a", "b", "c"}, {});
  builder.add_edge("a", "c", {.set = kData | kAffinity, .affinity = kSameWorker});
  builder.add_edge("b", "c", {.set = kAffinity, .affinity = kSameWorker});
  EXPECT_EQ(refusal(builder), "node 'c' cannot run both where 'a' and where 'b' have run");
}

TEST(Graph, KeepsItsLimits) {
  const auto two = simple_builder({"a", "b"}, {{"a", "b"}});
  EXPECT_EQ(refusal(two, {.nodes = 2, .edges = 1, .tasks = 2}), "");
  EXPECT_EQ(refusal(two, {.nodes = 1}), "the graph has 2 nodes; the limit is 1");
  EXPECT_EQ(refusal(two, {.edges = 0}), "the graph has 1 edges; the limit is 0");
  EXPECT_EQ(refusal(two, {.tasks = 1}), "the graph has 2 tasks; the limit is 1");
  EXPECT_THAT(refusal(two, {.arguments_bytes = 15}), HasSubstr("16 bytes; the limit is 15"));
  EXPECT_THAT(refusal(two, {.strings_bytes = 33}), HasSubstr("34 bytes of keys and arguments"));
  EXPECT_THAT(refusal(simple_builder({"long"}, {}), {.key_bytes = 3}),
              HasSubstr("the key 'long' has 4 bytes; the limit is 3"));
  auto many = simple_builder({"a"}, {});
  many.add_function(0, kDigestFunction);
  EXPECT_THAT(refusal(many, {.tasks_of_node = 1}), HasSubstr("it has 2 tasks"));

  auto slow = simple_builder({"a"}, {});
  slow.add_function(slow.add_node({.key = "b", .work_ns = kTotalTimeMaxNs}), kDigestFunction);
  EXPECT_EQ(refusal(slow), "");
  slow.add_edge("a", "b", {.set = kNotBefore, .not_before_ns = 1});
  EXPECT_THAT(refusal(slow), HasSubstr("all work and times to wait up to node 'b'"));
}

// Keys are any bytes; a message about one is a line all the same.
TEST(Graph, NamesStrangeKeysInOneLine) {
  EXPECT_EQ(key_text(std::string_view("a\nb\0'\\", 6)), "'a\\x0ab\\x00\\x27\\x5c'");
  EXPECT_EQ(key_text(std::string(200, 'k')), "'" + std::string(80, 'k') + "...'");
}

// DG-1: each node stands behind its predecessors, in a graph with skewed degrees.
TEST(Graph, OrdersLargeGraphs) {
  const GraphPlan plan = random_plan({.seed = rockhopper::test::seed(), .nodes = 100'000});
  const auto graph = build(plan, digest_registry());
  ASSERT_TRUE(graph) << graph.error().message;
  ASSERT_EQ(graph->size(), plan.nodes.size());
  std::vector<bool> seen(graph->size());
  std::size_t most_successors = 0;
  for (const NodeIndex node : graph->topological_order()) {
    const auto& wanted = plan.nodes.at(std::string(graph->key(node))).predecessors;
    const auto predecessors = graph->predecessors(node);
    ASSERT_EQ(predecessors.size(), wanted.size());
    auto next = wanted.begin();
    for (const Predecessor& predecessor : predecessors) {
      ASSERT_TRUE(seen[predecessor.from]);
      ASSERT_EQ(graph->key(predecessor.from), next->first);
      ASSERT_EQ(graph->edge(predecessor.edge).constraints, next->second);
      ++next;
    }
    ASSERT_FALSE(seen[node]);
    seen[node] = true;
    most_successors = std::max(most_successors, graph->edges_of(node).size());
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), graph->size());
  EXPECT_GT(most_successors, 1000u) << "the degrees are skewed";
}

}  // namespace
}  // namespace rockhopper::dag::test
