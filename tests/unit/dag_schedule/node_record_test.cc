// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Nodes as records (DG-1 to DG-4): what is written is what is read, and nothing else is accepted.
#include "apps/services/dag/schedule/node_record.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/services/dag/graph/critical_path.h"
#include "apps/services/dag/graph/digest_task.h"
#include "apps/services/dag/graph/graph_builder.h"
#include "apps/services/dag/schedule/node_state.h"
#include "tests/dag_graph/graph_plan.h"
#include "tests/sim/rng.h"
#include "tests/support/seed.h"

namespace rockhopper::dag::test::node_record_test {
namespace {

constexpr std::uint64_t kAddress = 640;
constexpr std::uint64_t kIncarnation = 17;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// All records of a graph in a piece of memory, as a server would have them.
struct Written {
  explicit Written(const Graph& graph) : records(*NodeRecords::create(graph, "run")) {
    records.set_place(kAddress, kIncarnation);
    memory.resize(kAddress + records.bytes());
    for (NodeIndex node = 0; node < graph.size(); ++node) {
      const MapPlace place = records.place(node);
      records.compose(node, std::span(memory).subspan(place.address, place.length));
    }
  }
  [[nodiscard]] RecordView examine(const MapPlace& place, std::string_view key) const {
    return examine_record(std::span(memory).subspan(place.address, place.length), place.incarnation,
                          bytes_of(key));
  }
  NodeRecords records;
  std::vector<std::byte> memory;
};

/// The longest way to the end of a node, by recursion from the plan.
std::uint64_t length_of(const GraphPlan& plan, const std::string& key,
                        std::map<std::string, std::uint64_t>& known) {
  if (const auto found = known.find(key); found != known.end()) return found->second;
  std::uint64_t behind = 0;
  for (const auto& [other, node] : plan.nodes) {
    const auto edge = node.predecessors.find(key);
    if (edge == node.predecessors.end()) continue;
    behind = std::max(behind, edge->second.not_before_ns + length_of(plan, other, known));
  }
  const std::uint64_t work = std::max<std::uint64_t>(plan.nodes.at(key).work_ns, 1);
  return known[key] = work + behind;
}

bool is_directed(const NodePlan& node) {
  return std::any_of(node.predecessors.begin(), node.predecessors.end(),
                     [](const auto& edge) { return (edge.second.set & kAffinity) != 0; });
}

// DG-1, DG-2, DG-3, DG-4, DG-41: a graph is in its records, whole.
TEST(NodeRecord, HasAllThatTheGraphHas) {
  const GraphPlan plan = random_plan({.seed = ::rockhopper::test::seed(), .nodes = 300});
  const auto graph = build(plan, digest_registry());
  ASSERT_TRUE(graph);
  const Written written(*graph);
  std::map<std::string, std::uint64_t> lengths;
  std::uint64_t end = kAddress;
  NodeView view;
  for (NodeIndex node = 0; node < graph->size(); ++node) {
    const std::string key(graph->key(node));
    const NodePlan& expected = plan.nodes.at(key);
    const MapPlace place = written.records.place(node);
    EXPECT_EQ(place.address, end) << "no two overlap";
    EXPECT_EQ(place.address % kRecordAlignment, 0u);
    EXPECT_GE(place.length, Store::kArenaStep);
    EXPECT_EQ(place.incarnation, kIncarnation + node);
    end = place.address + place.length;
    const RecordView record = written.examine(place, "run/" + key);
    ASSERT_EQ(record.verdict, Verdict::match);
    EXPECT_EQ(record.header.slots, 1u) << "fixed";
    EXPECT_EQ(record.header.control[kStateWord], NodeState{}.bits());
    EXPECT_EQ(record.header.control[kDependenciesWord], expected.predecessors.size());
    ASSERT_TRUE(parse_node(record.data, view));
    EXPECT_EQ(view.node, node);
    EXPECT_EQ(view.work_ns, expected.work_ns);
    EXPECT_EQ(view.priority, length_of(plan, key, lengths));
    EXPECT_EQ(view.directed, is_directed(expected));
    ASSERT_EQ(view.tasks.size(), expected.output_bytes.size());
    for (std::uint32_t i = 0; i < view.tasks.size(); ++i) {
      const Task task = graph->task(node, i);
      EXPECT_EQ(view.tasks[i].kind, task.kind);
      EXPECT_EQ(view.tasks[i].function, task.function);
      EXPECT_TRUE(std::equal(view.tasks[i].arguments.begin(), view.tasks[i].arguments.end(),
                             task.arguments.begin(), task.arguments.end()));
    }
    ASSERT_EQ(view.predecessors.size(), expected.predecessors.size());
    auto wanted = expected.predecessors.begin();  // in the order of the keys
    for (const NodeLink& link : view.predecessors) {
      EXPECT_EQ(link.key, wanted->first);
      EXPECT_EQ(link.constraints, wanted->second);
      const MapPlace there{
          .incarnation = link.incarnation, .address = link.address, .length = link.length};
      EXPECT_EQ(written.examine(there, "run/" + wanted->first).verdict, Verdict::match);
      ++wanted;
    }
    ASSERT_EQ(view.successors.size(), graph->edges_of(node).size());
    for (const NodeLink& link : view.successors) {
      const std::string successor(graph->key(link.node));
      EXPECT_EQ(link.constraints, plan.nodes.at(successor).predecessors.at(key));
      EXPECT_EQ(link.directed, is_directed(plan.nodes.at(successor)));
      const MapPlace there{
          .incarnation = link.incarnation, .address = link.address, .length = link.length};
      EXPECT_EQ(written.examine(there, "run/" + successor).verdict, Verdict::match);
    }
  }
  EXPECT_EQ(end, kAddress + written.records.bytes());
}

// DG-30: of no part of a node's data, and of nothing else, is a node made; nothing is read beyond.
TEST(NodeRecord, NothingElseIsAccepted) {
  sim::Rng rng(::rockhopper::test::seed());
  const auto graph = build(random_plan({.seed = rng.next(), .nodes = 40}), digest_registry());
  ASSERT_TRUE(graph);
  const Written written(*graph);
  NodeView view;
  for (NodeIndex node = 0; node < graph->size(); ++node) {
    const MapPlace place = written.records.place(node);
    const auto data = written.examine(place, written.records.key(node)).data;
    for (std::size_t length = 0; length < data.size(); ++length) {
      // Of its own, so that a sanitizer sees every byte that is read behind it.
      const std::vector<std::byte> part(data.begin(), data.begin() + length);
      EXPECT_FALSE(parse_node(part, view)) << "the first " << length << " of " << data.size();
    }
    std::vector<std::byte> more(data.begin(), data.end());
    more.resize(more.size() + 8);
    EXPECT_FALSE(parse_node(more, view));
    for (int i = 0; i < 300; ++i) {
      std::vector<std::byte> changed(data.begin(), data.end());
      changed[rng.between(0, changed.size() - 1)] ^= static_cast<std::byte>(rng.between(1, 255));
      if (!parse_node(changed, view)) continue;
      for (const auto& links : {view.predecessors, view.successors}) {
        for (const NodeLink& link : links) {
          EXPECT_TRUE(problem_of(link.constraints).empty());
          EXPECT_EQ(link.address % kRecordAlignment, 0u);
          EXPECT_LT(link.address, kRecordAddressEnd);
          EXPECT_LT(link.length, kRecordLengthEnd);
        }
      }
    }
  }
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::uint8_t> noise(rng.between(0, 300));
    rng.fill(noise);
    if (noise.size() > 16) std::memset(noise.data() + 4, 0, 12);
    (void)parse_node(std::as_bytes(std::span(noise)), view);
  }
}

// DG-4: what a store could not hold is refused before anything is written.
TEST(NodeRecord, LimitsAreTold) {
  const FunctionRegistry registry = digest_registry();
  GraphBuilder builder;
  for (const std::string& key : {std::string("a"), std::string(kNodeKeyMax + 1, 'k')}) {
    builder.add_function(builder.add_node({.key = key}), kDigestFunction, DigestArguments{}.emit());
  }
  const auto graph = builder.build(registry);
  ASSERT_TRUE(graph);
  EXPECT_FALSE(NodeRecords::create(*graph, "run"));
  EXPECT_FALSE(NodeRecords::create(*graph, "no name"));

  GraphBuilder wide;
  const NodeIndex first = wide.add_node({.key = "first"});
  wide.add_function(first, kDigestFunction, DigestArguments{}.emit());
  for (int i = 0; i < 100; ++i) {
    const NodeIndex next = wide.add_node({.key = "n" + std::to_string(i)});
    wide.add_function(next, kDigestFunction, DigestArguments{}.emit());
    wide.add_edge(first, next);
  }
  const auto fan = wide.build(registry);
  ASSERT_TRUE(fan);
  EXPECT_TRUE(NodeRecords::create(*fan, "run", 8192));
  const auto refused = NodeRecords::create(*fan, "run", 2048);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("'first'"), std::string::npos) << refused.error().message;
}

TEST(NodeRecord, NamesOfRuns) {
  EXPECT_TRUE(is_run_name("a"));
  EXPECT_TRUE(is_run_name("Run_1.2-x"));
  EXPECT_TRUE(is_run_name(std::string(kRunNameMax, 'x')));
  EXPECT_FALSE(is_run_name(std::string(kRunNameMax + 1, 'x')));
  for (const std::string_view name : {"", " ", "a/b", "a b", "\xc3\xa4", "a\n"}) {
    EXPECT_FALSE(is_run_name(name)) << name;
  }
}

}  // namespace
}  // namespace rockhopper::dag::test::node_record_test
