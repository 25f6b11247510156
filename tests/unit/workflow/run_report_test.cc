// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What a report makes of logs: figures reckoned by hand, and what is wrong with a run.
#include "apps/rh_dag/run_report.h"

#include <cmath>

#include <gmock/gmock.h>

#include "apps/rh_dag/workflow_graph.h"
#include "tests/unit/workflow/workflow_file.h"

namespace rockhopper::apps::dag_node {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kSecond = 1'000'000'000;

dag::Graph letters_graph() {
  return to_graph(letters_workflow(), {.scale = 1}, functions()).value();
}

NodeRun run(const char* node, const char* worker, std::uint64_t from, std::uint64_t to) {
  return {.node = node, .worker = worker, .start_ns = from * kSecond, .end_ns = to * kSecond};
}

/// Two workers: one runs split, count_1 and merge, the other count_2 and notify, both stolen.
RunLog right_log() {
  RunLog log;
  log.header = {.graph = "letters", .nodes = 5, .work_ns = 1, .critical_path_ns = 7 * kSecond};
  log.runs = {run("split_1", "w0", 10, 12), run("count_1", "w0", 12, 16),
              run("merge_1", "w0", 17, 18), run("count_2", "w1", 13, 17),
              run("notify_1", "w1", 12, 13)};
  log.runs[3].stolen = true;
  log.runs[4].stolen = true;
  log.runs[4].attempts = 2;
  log.steals = {{.worker = "w1", .attempts = 6, .successes = 2},
                {.worker = "w2", .attempts = 9, .successes = 0}};
  return log;
}

// DG-12, DG-13: work, makespan, speed-up, steals, and how evenly the workers were busy.
TEST(RunReport, Figures) {
  const dag::Graph graph = letters_graph();
  const RunReport report = make_report(right_log(), &graph);
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.committed, 5u);
  EXPECT_EQ(report.stolen, 2u);
  EXPECT_EQ(report.repeated, 1u);
  EXPECT_DOUBLE_EQ(report.makespan_s, 8);
  EXPECT_DOUBLE_EQ(report.work_s, 12);
  EXPECT_DOUBLE_EQ(report.speed_up, 1.5);
  EXPECT_DOUBLE_EQ(report.efficiency, 0.5);
  // Busy for 7, 5 and 0 of 12 seconds: the mean is 4.
  EXPECT_DOUBLE_EQ(report.busy_variation, std::sqrt((9 + 1 + 16) / 3.0) / 4);
  ASSERT_EQ(report.workers.size(), 3u);
  EXPECT_EQ(report.workers[1].name, "w1");
  EXPECT_EQ(report.workers[1].stolen, 2u);
  EXPECT_EQ(report.workers[1].steal_attempts, 6u);
  EXPECT_EQ(report.workers[2].nodes, 0u);
  // Measured: split 2, count_1 or count_2 4, merge 1.
  EXPECT_TRUE(report.path_is_measured);
  EXPECT_DOUBLE_EQ(report.critical_path_s, 7);
  EXPECT_THAT(report.path, ElementsAre("split_1", "count_1", "merge_1"));
  EXPECT_DOUBLE_EQ(report.bounds.least, 7);
  EXPECT_DOUBLE_EQ(report.bounds.accepted, 1.25 * (4 + 7));
}

TEST(RunReport, WithoutTheGraphThePathIsAnEstimate) {
  RunLog log = right_log();
  log.header.critical_path_ns = 3 * kSecond;
  const RunReport report = make_report(log, nullptr);
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_FALSE(report.path_is_measured);
  EXPECT_DOUBLE_EQ(report.critical_path_s, 3);
  EXPECT_DOUBLE_EQ(report.bounds.least, 4);
}

// DG-35: each node counts once; runs of workers that had lost it do not.
TEST(RunReport, RunsThatDoNotCountAreNoNodes) {
  const dag::Graph graph = letters_graph();
  RunLog log = right_log();
  log.runs.push_back(run("count_2", "w2", 13, 15));
  log.runs.back().committed = false;
  const RunReport report = make_report(log, &graph);
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.wasted, 1u);
  EXPECT_DOUBLE_EQ(report.work_s, 12);
  EXPECT_EQ(report.workers[2].busy_ns, 2 * kSecond);

  log.runs.back().committed = true;
  EXPECT_THAT(make_report(log, &graph).problems,
              ElementsAre("node 'count_2' was committed by 'w1' and by 'w2'"));
}

// DG-10: what is missing, unknown, or was begun before what it needs.
TEST(RunReport, ProblemsOfARun) {
  const dag::Graph graph = letters_graph();
  RunLog log = right_log();
  log.runs.erase(log.runs.begin() + 2);
  EXPECT_THAT(make_report(log, &graph).problems,
              ElementsAre("4 of 5 nodes were run", "node 'merge_1' was not run"));
  log = right_log();
  log.runs[4].node = "nobody";
  EXPECT_THAT(make_report(log, &graph).problems,
              ElementsAre("node 'nobody' is not in the graph", "node 'notify_1' was not run"));
  log = right_log();
  log.runs[2].start_ns -= kSecond;
  EXPECT_THAT(make_report(log, &graph).problems,
              ElementsAre("node 'merge_1' was begun before it could be: 'count_2' ended later"));
  log.runs[2].start_ns -= kSecond;
  EXPECT_THAT(make_report(log, &graph).problems,
              ElementsAre(HasSubstr("'count_1' ended later (and 1 more)")));
}

TEST(RunReport, OfNothingIsAReport) {
  RunLog log;
  log.header = {.graph = "g", .nodes = 1};
  const RunReport report = make_report(log, nullptr);
  EXPECT_THAT(report.problems, ElementsAre("0 of 1 nodes were run"));
  EXPECT_EQ(report.busy_variation, 0);
  EXPECT_EQ(report.speed_up, 0);
}

TEST(RunReport, AsJson) {
  const dag::Graph graph = letters_graph();
  const auto object = nlohmann::json::parse(to_json(make_report(right_log(), &graph)));
  EXPECT_EQ(object["committed"], 5);
  EXPECT_EQ(object["workers"][1]["busy_s"], 5);
  EXPECT_EQ(object["critical_path"].size(), 3u);
}

}  // namespace
}  // namespace rockhopper::apps::dag_node
