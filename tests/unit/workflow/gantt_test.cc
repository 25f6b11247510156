// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/gantt.h"

#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace rockhopper::apps::dag_node {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++found;
  }
  return found;
}

TEST(Gantt, HasARowAWorkerAndABarANode) {
  RunLog log;
  log.header = {.graph = "a < b", .nodes = 3};
  log.runs = {{.node = "first", .worker = "w0", .start_ns = 100'000'000, .end_ns = 300'000'000},
              {.node = "\"<2>\"",
               .worker = "w1",
               .start_ns = 300'000'000,
               .end_ns = 600'000'000,
               .stolen = true},
              {.node = "lost",
               .worker = "w1",
               .start_ns = 600'000'000,
               .end_ns = 700'000'000,
               .committed = false}};
  log.steals = {{.worker = "idle one", .attempts = 3}};
  const std::vector<std::string> path{"first"};
  const std::string svg = to_gantt(log, path);
  EXPECT_EQ(svg, to_gantt(log, path)) << "the same run, the same bytes";
  EXPECT_EQ(count(svg, "<title>"), 3u);
  EXPECT_THAT(svg, HasSubstr("a &lt; b: 3 nodes, 3 workers"));
  EXPECT_THAT(svg, HasSubstr("<title>&quot;&lt;2&gt;&quot;: 300.000 ms</title>"));
  EXPECT_THAT(svg, HasSubstr(">idle one</text>"));
  EXPECT_THAT(svg, HasSubstr(">milliseconds</text>"));
  EXPECT_EQ(count(svg, "stroke=\"#000\"><title>first"), 1u) << "framed as the critical path";
  EXPECT_EQ(count(svg, "stroke=\"#000\"><title>"), 1u);
}

// A hundred thousand nodes give a chart that can be looked at.
TEST(Gantt, OfManyNodesStaysSmall) {
  std::mt19937_64 random(rockhopper::test::seed());
  RunLog log;
  log.header = {.graph = "many", .nodes = 100'000};
  std::vector<std::string> path;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    const std::uint64_t start = i * 10;
    log.runs.push_back({.node = std::to_string(i),
                        .worker = i % 2 == 0 ? "even" : "odd",
                        .start_ns = start,
                        .end_ns = start + 1 + random() % 20,
                        .stolen = random() % 2 == 0});
    path.push_back(log.runs.back().node);
  }
  const std::string svg = to_gantt(log, path);
  EXPECT_LT(svg.size(), 1'000'000u);
  std::uint64_t nodes = 0;
  for (std::size_t at = svg.find("<title>"); at != std::string::npos;
       at = svg.find("<title>", at + 1)) {
    if (svg.find(" nodes</title>", at) < svg.find("</rect>", at)) {
      nodes += std::stoull(svg.substr(at + 7));
    } else {
      ++nodes;
    }
  }
  EXPECT_EQ(nodes, 100'000u) << "each is in one bar";
}

TEST(Gantt, OfNothingIsAChart) {
  RunLog log;
  log.header = {.graph = "none", .nodes = 1};
  EXPECT_THAT(to_gantt(log, {}), HasSubstr("</svg>"));
  EXPECT_THAT(to_gantt(log, {}), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace rockhopper::apps::dag_node
