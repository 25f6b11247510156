// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// Graphs as a server gets them. The first byte of an input says what the rest is: an image as it
// is; nodes, tasks and edges for the builder, whose graph is then sent; or these and changes to the
// image.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "apps/services/dag/graph/critical_path.h"
#include "apps/services/dag/graph/digest_task.h"
#include "apps/services/dag/graph/graph_builder.h"
#include "apps/services/dag/graph/graph_image.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input.h"

namespace rockhopper::fuzz {
namespace {

using namespace dag;

enum Mode : std::uint8_t { kImage, kBuilder, kChanges, kModes };

constexpr GraphLimits kLimits{.nodes = 64,
                              .edges = 256,
                              .tasks = 128,
                              .tasks_of_node = 8,
                              .key_bytes = 32,
                              .arguments_bytes = 64,
                              .strings_bytes = 4096};

const FunctionRegistry& registry() {
  static const FunctionRegistry kRegistry = [] {
    FunctionRegistry made;
    check(add_digest_function(made).has_value());
    return made;
  }();
  return kRegistry;
}

/// What everybody may rely on who has a graph.
void check_graph(const Graph& graph) {
  check(graph.size() > 0 && graph.topological_order().size() == graph.size());
  std::vector<bool> seen(graph.size());
  std::uint32_t edges = 0;
  for (const NodeIndex node : graph.topological_order()) {
    for (const Predecessor& predecessor : graph.predecessors(node)) {
      check(seen[predecessor.from] && graph.edge(predecessor.edge).to == node);
    }
    check(!seen[node] && graph.find(graph.key(node)) == node);
    seen[node] = true;
    for (std::uint32_t i = 0; i < graph.tasks_of(node); ++i) {
      const Task task = graph.task(node, i);
      check(task.kind == TaskKind::command ? parse_command(task.arguments).has_value()
                                           : registry().find(task.function) != nullptr);
    }
    for (const Edge& edge : graph.edges_of(node)) {
      check(problem_of(edge.constraints).empty());
    }
    edges += static_cast<std::uint32_t>(graph.edges_of(node).size());
  }
  check(edges == graph.edges());
  const auto work = work_of(graph);
  check(critical_path(graph, work).length_ns <= kTotalTimeMaxNs);
}

/// An image that is taken is the only one of its graph.
void check_image(std::span<const std::byte> bytes) {
  const auto graph = parse_image(bytes, registry(), kLimits);
  if (!graph) {
    check(!graph.error().message.empty() && graph.error().message.find('\n') == std::string::npos);
    return;
  }
  check_graph(*graph);
  check(std::ranges::equal(to_image(*graph), bytes));
}

EdgeConstraints take_constraints(Input& input) {
  EdgeConstraints constraints{.set = input.u8()};
  if ((constraints.set & kAffinity) != 0) constraints.affinity = input.u8();
  if ((constraints.set & kNotBefore) != 0) constraints.not_before_ns = input.u64();
  return constraints;
}

Expected<Graph> take_graph(Input& input) {
  GraphBuilder builder;
  const std::uint32_t nodes = input.u8() % 16;
  for (std::uint32_t i = 0; i < nodes; ++i) {
    const auto key = input.take(input.u8() % 8);
    const NodeIndex node =
        builder.add_node({.key = {reinterpret_cast<const char*>(key.data()), key.size()},
                          .work_ns = input.u32(),
                          .priority = input.u8()});
    for (unsigned left = input.u8() % 4; left > 0; --left) {
      const auto word = input.take(input.u8() % 8);
      if (input.u8() % 2 == 0) {
        const std::array<std::string_view, 1> words{
            std::string_view(reinterpret_cast<const char*>(word.data()), word.size())};
        builder.add_command(node, words);
      } else {
        builder.add_function(node, {1, input.u8() % 8u}, std::as_bytes(word));
      }
    }
  }
  for (unsigned left = input.u8(); left > 0 && nodes > 0; --left) {
    const NodeIndex from = input.u8() % 17;
    const NodeIndex to = input.u8() % 17;
    builder.add_edge(from, to, take_constraints(input));
  }
  return builder.build(registry(), kLimits);
}

void run(std::span<const std::uint8_t> bytes) {
  Input input(bytes);
  const std::uint8_t mode = input.u8() % kModes;
  if (mode == kImage) {
    check_image(std::as_bytes(input.take(bytes.size())));
    return;
  }
  const auto graph = take_graph(input);
  if (!graph) {
    check(!graph.error().message.empty());
    return;
  }
  check_graph(*graph);
  auto image = to_image(*graph);
  check(parse_image(image, registry(), kLimits).has_value());
  if (mode == kBuilder) return;
  while (!input.empty()) {
    image[input.u16() % image.size()] = static_cast<std::byte>(input.u8());
    check_image(image);
  }
}

/// A graph with nodes for some of the packet's bytes, and then changes.
test::Bytes make_input(const test::RocePacket& packet) {
  const auto content = packet.transport();
  test::Bytes input{kChanges, 3};
  for (std::uint8_t i = 0; i < 3; ++i) {
    // Key, work, priority; a digest task.
    input.insert(input.end(), {1, static_cast<std::uint8_t>('a' + i), 0, 0, 0, i, 0, 1, 0, 1, 1});
  }
  input.insert(input.end(), {2, 0, 1, kData, 1, 2, kOrderOnly});
  input.insert(input.end(), content.begin(), content.end());
  return input;
}

const FuzzTarget kTarget("dag_graph", run, make_input);

}  // namespace
}  // namespace rockhopper::fuzz
