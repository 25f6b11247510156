// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/graph/node_runner.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

#include "tests/unit/dag_graph/graph_builders.h"

namespace rockhopper::dag::test::node_runner_test {
namespace {

using Bytes = std::vector<std::byte>;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Bytes bytes(std::string_view text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

constexpr FunctionId kTell{10, 1};
constexpr FunctionId kFail{11, 1};
constexpr FunctionId kKnown{12, 1};

FunctionRegistry telling_registry() {
  FunctionRegistry registry;
  EXPECT_TRUE(registry.add(kTell, "tell", [](const TaskCall& call, Bytes& output) {
    std::string told =
        text_of(call.previous) + "(" + std::string(call.key) + ":" + text_of(call.arguments);
    for (const TaskInput& input : call.inputs) {
      told += " " + std::string(input.key) + "=" + text_of(input.bytes);
    }
    output = bytes(told + ")");
    return Expected<void>();
  }));
  EXPECT_TRUE(registry.add(kFail, "fail", [](const TaskCall&, Bytes&) -> Expected<void> {
    return fail(ErrorCode::io, "no disk");
  }));
  EXPECT_TRUE(registry.add_known(kKnown, "known"));
  return registry;
}

// DG-2, DG-10: the tasks of a node run in their order, each with what the one before it left.
TEST(NodeRunner, RunsTheSequence) {
  const FunctionRegistry registry = telling_registry();
  NodeRunner runner(registry, [](const TaskCall& call, Bytes& output) {
    output = bytes(text_of(call.previous) + "[" +
                   std::string(parse_command(call.arguments)->front()) + "]");
    return Expected<void>();
  });
  GraphBuilder builder;
  const NodeIndex node = builder.add_node({.key = "n"});
  builder.add_function(node, kTell, bytes("one"));
  builder.add_command(node, std::array<std::string_view, 1>{"prog"});
  builder.add_function(node, kTell, bytes("two"));
  const auto graph = builder.build(registry);
  ASSERT_TRUE(graph) << graph.error().message;
  const Bytes read = bytes("A");
  const TaskInput inputs[] = {{"a", read}};
  Bytes output = bytes("of another node");
  ASSERT_TRUE(runner.run(*graph, 0, inputs, output));
  EXPECT_EQ(text_of(output), "(n:one a=A)[prog](n:two a=A)");
}

TEST(NodeRunner, NamesTheTaskThatFails) {
  const FunctionRegistry registry = telling_registry();
  NodeRunner runner(registry);
  const auto said = [&](std::initializer_list<Task> tasks) {
    Bytes output;
    const auto done = runner.run("n", std::span(tasks.begin(), tasks.size()), {}, output);
    return done ? "" : done.error().message;
  };
  const Bytes command = bytes(std::string_view("prog", 5));
  const Task tell{.function = kTell, .arguments = {}};
  EXPECT_EQ(said({tell, {.function = kFail, .arguments = {}}, tell}), "node 'n', task 1: no disk");
  EXPECT_EQ(said({{.function = kKnown, .arguments = {}}}),
            "node 'n', task 0: function 'known' is not run here");
  EXPECT_EQ(said({{.function = {99, 1}, .arguments = {}}}),
            "node 'n', task 0: function 99 is not known");
  EXPECT_EQ(said({{.kind = TaskKind::command, .function = {}, .arguments = command}}),
            "node 'n', task 0: commands are not run here");
}

}  // namespace
}  // namespace rockhopper::dag::test::node_runner_test
