// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/workflow_graph.h"

#include <gmock/gmock.h>

#include "apps/rh_dag/graph_summary.h"
#include "apps/services/dag/graph/critical_path.h"
#include "apps/services/dag/graph/digest_task.h"
#include "tests/unit/workflow/workflow_file.h"

namespace rockhopper::apps::dag_node {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// DG-2, DG-3: a task computes for its time, then writes its bytes; what it reads makes a data edge.
TEST(WorkflowGraph, IsTheWorkflowsScaled) {
  const auto graph =
      to_graph(letters_workflow(), {.seed = 5, .scale = 0.5, .size_scale = 0.1}, functions());
  ASSERT_TRUE(graph) << graph.error().message;
  const auto count = graph->find("count_1").value();
  EXPECT_EQ(graph->work_ns(count), 1'500'000'000u);
  EXPECT_EQ(graph->priority(count), 20);
  ASSERT_EQ(graph->tasks_of(count), 2u);
  EXPECT_EQ(graph->task(count, 0).function, kWaitFunction);
  const auto digest = dag::DigestArguments::parse(graph->task(count, 1).arguments);
  ASSERT_TRUE(digest);
  EXPECT_EQ(digest->seed, 5u);
  EXPECT_EQ(digest->output_bytes, 30u);
  const auto split = graph->find("split_1").value();
  EXPECT_EQ(dag::DigestArguments::parse(graph->task(split, 1).arguments)->output_bytes, 500u);
  // Nothing to wait for where no time was recorded.
  const auto notify = graph->find("notify_1").value();
  EXPECT_EQ(graph->tasks_of(notify), 1u);
  EXPECT_EQ(graph->edge(graph->predecessors(notify)[0].edge).constraints.set, dag::kOrderOnly);
  EXPECT_EQ(graph->edge(graph->predecessors(count)[0].edge).constraints.set, dag::kData);
}

TEST(WorkflowGraph, HasTheRecordedCommands) {
  Workflow workflow = letters_workflow();
  const auto graph = to_graph(workflow, {.commands = true}, functions());
  ASSERT_TRUE(graph) << graph.error().message;
  const auto count = graph->find("count_1").value();
  ASSERT_EQ(graph->tasks_of(count), 1u);
  EXPECT_THAT(dag::parse_command(graph->task(count, 0).arguments).value(),
              ElementsAre("sh", "-c", "tr -d bc"));
  workflow.tasks[2].command.clear();
  EXPECT_EQ(to_graph(workflow, {.commands = true}, functions()).error().message,
            "task 'count_2' has no command");
}

TEST(WorkflowGraph, RefusesOutputsThatAreTooLarge) {
  EXPECT_THAT(to_graph(letters_workflow(), {.size_scale = 1e6}, functions()).error().message,
              StartsWith("task 'split_1' would write 5000000000 bytes; the limit is 1073741824"));
}

TEST(WorkflowGraph, RefusesTimesThatAreTooLong) {
  Workflow workflow = letters_workflow();
  for (Workflow::Task& task : workflow.tasks) {
    task.runtime_ns = 1'000'000'000'000'000'000;
  }
  EXPECT_THAT(to_graph(workflow, {.scale = 1000}, functions()).error().message,
              StartsWith("all work and times to wait up to node"));
}

TEST(WorkflowGraph, Summary) {
  const Workflow workflow = letters_workflow();
  const auto graph = to_graph(workflow, {.scale = 1}, functions());
  ASSERT_TRUE(graph);
  const GraphSummary summary = summarise(workflow, *graph);
  EXPECT_EQ(summary.tasks, 5u);
  EXPECT_EQ(summary.edges, 5u);
  EXPECT_EQ(summary.data_edges, 4u);
  EXPECT_EQ(summary.written_bytes, 5890u);
  EXPECT_EQ(summary.external_bytes, 5000u);
  EXPECT_EQ(summary.first_tasks, 1u);
  EXPECT_EQ(summary.last_tasks, 2u);
  EXPECT_EQ(summary.levels, 3u);
  EXPECT_EQ(summary.width, 3u);
  EXPECT_EQ(summary.most_successors, 3u);
  EXPECT_DOUBLE_EQ(summary.work_s, 5.875);
  EXPECT_DOUBLE_EQ(summary.critical_path_s, 3.625);
  EXPECT_THAT(summary.critical_path, ElementsAre("split_1", "count_1", "merge_1"));
  EXPECT_THAT(to_json(summary), HasSubstr("\"width\":3"));
}

}  // namespace
}  // namespace rockhopper::apps::dag_node
