// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include <gtest/gtest.h>

#include "apps/rh_dag/functions.h"
#include "apps/rh_dag/random_graph.h"
#include "apps/services/dag/graph/graph_image.h"

namespace rockhopper::apps::dag_node {
namespace {

TEST(RandomGraph, IsTheSameForTheSameNumbers) {
  const auto registry = make_functions(Wait::sleep, [] { return false; });
  ASSERT_TRUE(registry);
  const auto image_of = [&](const char* text) {
    const auto random = parse_random_graph(text);
    EXPECT_TRUE(random) << text;
    const auto graph = make_random_graph(*random, *registry);
    EXPECT_TRUE(graph) << text;
    return dag::to_image(*graph);
  };
  EXPECT_EQ(image_of("nodes=500,seed=7"), image_of("seed=7,nodes=500"));
  EXPECT_NE(image_of("nodes=500,seed=7"), image_of("nodes=500,seed=8"));
  EXPECT_NE(image_of("nodes=500"), image_of("nodes=500,work=1us"));
}

TEST(RandomGraph, HasTheShapeThatIsAskedFor) {
  const auto registry = make_functions(Wait::sleep, [] { return false; });
  ASSERT_TRUE(registry);
  const auto random = parse_random_graph("nodes=400,seed=3,edges=3,width=10,bytes=64");
  ASSERT_TRUE(random);
  const auto graph = make_random_graph(*random, *registry);
  ASSERT_TRUE(graph);
  ASSERT_EQ(graph->size(), 400u);
  for (dag::NodeIndex node = 0; node < graph->size(); ++node) {
    const auto predecessors = graph->predecessors(node);
    EXPECT_LE(predecessors.size(), 3u);
    EXPECT_EQ(predecessors.empty(), node == 0);
    for (const auto& predecessor : predecessors) {
      EXPECT_LT(predecessor.from, node);
      EXPECT_LE(node - predecessor.from, 10u);
    }
  }
}

TEST(RandomGraph, MistakesAreRefused) {
  for (const char* text : {"nodes", "nodes=", "nodes=0", "nodes=4294967296", "knots=1", "edges=65",
                           "edges=-1", "bytes=2GiB", "work=5", "seed=x", "nodes=1,,edges=1"}) {
    EXPECT_FALSE(parse_random_graph(text)) << text;
  }
}

}  // namespace
}  // namespace rockhopper::apps::dag_node
