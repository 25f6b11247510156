// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/run_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rockhopper::apps::dag_node {
namespace {

using testing::HasSubstr;

const RunHeader kHeader{.graph = "g \"1\"", .nodes = 2, .work_ns = 30, .critical_path_ns = 20};

std::string header_line() { return to_line(kHeader) + "\n"; }

std::string refusal(const std::string& text) {
  RunLog log;
  const auto added = add_log(log, true, text);
  return added ? "" : added.error().message;
}

TEST(RunLog, IsReadAsItIsWritten) {
  const NodeRun run{.node = "a\tb",
                    .worker = "w1",
                    .start_ns = 5,
                    .end_ns = 9,
                    .stolen = true,
                    .attempts = 3,
                    .committed = false};
  const Steals steals{.worker = "w1", .attempts = 8, .successes = 2};
  RunLog log;
  ASSERT_TRUE(add_log(log, true, header_line() + to_line(run) + "\n" + to_line(steals) + "\n"));
  EXPECT_EQ(log.header, kHeader);
  ASSERT_EQ(log.runs.size(), 1u);
  EXPECT_EQ(log.runs[0].node, "a\tb");
  EXPECT_EQ(log.runs[0].worker, "w1");
  EXPECT_EQ(log.runs[0].start_ns, 5u);
  EXPECT_EQ(log.runs[0].end_ns, 9u);
  EXPECT_TRUE(log.runs[0].stolen);
  EXPECT_EQ(log.runs[0].attempts, 3u);
  EXPECT_FALSE(log.runs[0].committed);
  ASSERT_EQ(log.steals.size(), 1u);
  EXPECT_EQ(log.steals[0].attempts, 8u);
  EXPECT_EQ(log.torn_lines, 0u);
}

// DG-35: what a killed worker leaves of a line does not spoil the others.
TEST(RunLog, ALogMayEndWithinALine) {
  RunLog log;
  ASSERT_TRUE(add_log(
      log, true,
      header_line() + to_line(NodeRun{.node = "a", .worker = "w"}) + "\n{\"node\": \"b\", \"wor"));
  EXPECT_EQ(log.runs.size(), 1u);
  EXPECT_EQ(log.torn_lines, 1u);
}

TEST(RunLog, MistakesAreNamedByLine) {
  EXPECT_EQ(refusal(""), "the log is empty");
  EXPECT_THAT(refusal("hello\n"), HasSubstr("line 1: no JSON"));
  EXPECT_EQ(refusal("{}\n"), "line 1: log: is missing");
  EXPECT_EQ(refusal(R"({"log": "x"})"
                    "\n"),
            "line 1: log: this is no log of rh-dag");
  EXPECT_THAT(refusal(R"({"log": "rh-dag", "version": 2, "graph": "g", "nodes": 1})"
                      "\n"),
              HasSubstr("line 1: version: "));
  EXPECT_EQ(refusal(header_line() + "{}\n"), "line 2: the document: neither a node nor steals");
  EXPECT_EQ(refusal(header_line() + "{\"node\": \"a\"}\n"), "line 2: worker: is missing");
  EXPECT_EQ(refusal(header_line() + R"({"node": "a", "worker": "w", "start_ns": 2, "end_ns": 1})"
                                    "\n"),
            "line 2: end_ns: is before start_ns");
  EXPECT_THAT(refusal(header_line() + R"({"node": "a", "worker": "w", "start_ns": -2, "end_ns": 1})"
                                      "\n"),
              HasSubstr("line 2: start_ns: a whole number"));
  EXPECT_THAT(
      refusal(header_line() + R"({"steals": {"worker": "w", "attempts": 1, "successes": 2}})"
                              "\n"),
      HasSubstr("line 2: steals.successes: a whole number from 0 to 1"));
}

// Sums of times never overflow.
TEST(RunLog, TimesHaveALimit) {
  const std::string half =
      R"({"node": "a", "worker": "w", "start_ns": 0, "end_ns": 2305843009213693952})"
      "\n";
  EXPECT_EQ(refusal(header_line() + half + half), "");
  EXPECT_EQ(refusal(header_line() + half + half +
                    R"({"node": "a", "worker": "w", "start_ns": 1, "end_ns": 2})"
                    "\n"),
            "line 4: end_ns: all runs together take too long");
}

TEST(RunLog, LogsAreOfOneRun) {
  RunLog log;
  ASSERT_TRUE(add_log(log, true, header_line()));
  ASSERT_TRUE(add_log(log, false, header_line()));
  RunHeader other = kHeader;
  other.nodes = 3;
  EXPECT_EQ(add_log(log, false, to_line(other) + "\n").error().message,
            "line 1: the log is of another run than those before it");
  EXPECT_THAT(RunLogWriter::create("/no/such/folder/log", kHeader).error().message,
              HasSubstr("/no/such/folder/log cannot be written"));
}

}  // namespace
}  // namespace rockhopper::apps::dag_node
