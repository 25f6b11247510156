// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// A graph run here, against the judge's own reckoning.
#include "apps/rh_dag/local_run.h"

#include <gmock/gmock.h>

#include "apps/rh_dag/command_runner.h"
#include "apps/rh_dag/run_report.h"
#include "apps/rh_dag/workflow_graph.h"
#include "apps/services/dag/graph/digest_task.h"
#include "apps/services/dag/graph/graph_builder.h"
#include "tests/dag_graph/graph_plan.h"
#include "tests/dag_graph/sequential_evaluator.h"
#include "tests/support/seed.h"
#include "tests/unit/publish/temporary_folder.h"
#include "tests/unit/workflow/workflow_file.h"

namespace rockhopper::apps::dag_node {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

void ignore(std::uint64_t) {}

// DG-1, DG-10: the digest is the judge's, also where outputs are dropped on the way.
TEST(LocalRun, GivesTheJudgesDigest) {
  const auto plan = dag::test::random_plan(
      {.seed = rockhopper::test::seed(), .nodes = 20'000, .output_bytes_max = 2000});
  const dag::FunctionRegistry registry = dag::test::digest_registry();
  const auto graph = dag::test::build(plan, registry);
  ASSERT_TRUE(graph) << graph.error().message;
  dag::NodeRunner runner(registry);
  std::uint64_t told = 0;
  const auto run =
      run_local(*graph, runner, nullptr, [&told](std::uint64_t done) { EXPECT_EQ(done, ++told); });
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(dag::to_hex(run->digest), dag::test::evaluate(plan));
  EXPECT_EQ(told, graph->size());
}

// The log of a run is that of a complete and right one.
TEST(LocalRun, WritesALogThatHolds) {
  const publish::TemporaryFolder folder;
  const std::string path = folder.path("run.log");
  const dag::FunctionRegistry registry = functions();
  const auto graph = to_graph(letters_workflow(), {.scale = 0.001}, registry);
  ASSERT_TRUE(graph);
  auto log = RunLogWriter::create(path, header_of(*graph, "letters"));
  ASSERT_TRUE(log) << log.error().message;
  dag::NodeRunner runner(registry);
  ASSERT_TRUE(run_local(*graph, runner, &*log, &ignore));
  ASSERT_TRUE(log->close());
  const auto read = read_logs(std::vector{path});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->header, header_of(*graph, "letters"));
  EXPECT_EQ(read->runs.size(), 5u);
  const RunReport report = make_report(*read, &*graph);
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_GE(report.work_s, 0.005875) << "tasks take their time";
  EXPECT_GE(report.critical_path_s, 0.003625);
  EXPECT_LE(report.speed_up, 1);
}

// DG-3: a node waits as long as its edge says.
TEST(LocalRun, KeepsTimesToWait) {
  constexpr std::uint64_t kWaitNs = 30'000'000;
  const dag::FunctionRegistry registry = dag::test::digest_registry();
  dag::GraphBuilder builder;
  for (const char* key : {"a", "b"}) {
    builder.add_function(builder.add_node({.key = key}), dag::kDigestFunction,
                         dag::DigestArguments{}.emit());
  }
  builder.add_edge("a", "b", {.set = dag::kNotBefore, .not_before_ns = kWaitNs});
  const auto graph = builder.build(registry);
  ASSERT_TRUE(graph);
  dag::NodeRunner runner(registry);
  const auto run = run_local(*graph, runner, nullptr, &ignore);
  ASSERT_TRUE(run);
  EXPECT_GE(run->passed_ns, kWaitNs);
}

// Commands read what their predecessors have written.
TEST(LocalRun, RunsCommands) {
  const dag::FunctionRegistry registry = functions();
  const auto graph = to_graph(letters_workflow(), {.commands = true}, registry);
  ASSERT_TRUE(graph);
  dag::NodeRunner runner(registry, make_command_runner([] { return false; }));
  const auto run = run_local(*graph, runner, nullptr, &ignore);
  ASSERT_TRUE(run) << run.error().message;
  // abcabc, aa, bcbc, and the line that sort makes of both.
  EXPECT_EQ(run->output_bytes, 6u + 2 + 4 + 7);
}

TEST(LocalRun, EndsWithTheFirstTaskThatFails) {
  Workflow workflow = letters_workflow();
  workflow.tasks[1].command = {"false"};
  const dag::FunctionRegistry registry = functions();
  const auto graph = to_graph(workflow, {.commands = true}, registry);
  ASSERT_TRUE(graph);
  dag::NodeRunner runner(registry, make_command_runner([] { return false; }));
  const auto run = run_local(*graph, runner, nullptr, &ignore);
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().message, "node 'count_1', task 0: program 'false' ended with status 1");
}

}  // namespace
}  // namespace rockhopper::apps::dag_node
