// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_dag/ended_runs.h"

#include <vector>

#include <gtest/gtest.h>

namespace rockhopper::apps::dag_node {
namespace {

using Board = std::vector<dag::Worker::RunView>;
using dag::RunPhase;

TEST(EndedRuns, CountsEachRunOnce) {
  EndedRuns runs;
  runs.see(Board{{.id = 1, .phase = RunPhase::running}, {.id = 2, .phase = RunPhase::checking}});
  EXPECT_EQ(runs.count(), 0u);
  EXPECT_TRUE(runs.awaits_more());
  for (int look = 0; look < 2; ++look) {
    runs.see(Board{{.id = 1, .phase = RunPhase::complete}, {.id = 2, .phase = RunPhase::running}});
    EXPECT_EQ(runs.count(), 1u);
    EXPECT_TRUE(runs.awaits_more());
  }
  runs.see(Board{{.id = 1, .phase = RunPhase::complete}, {.id = 2, .phase = RunPhase::failed}});
  EXPECT_EQ(runs.count(), 2u);
  EXPECT_FALSE(runs.awaits_more());
}

TEST(EndedRuns, CountsARunThatWasDroppedBetweenTwoLooks) {
  EndedRuns runs;
  runs.see(Board{{.id = 1, .phase = RunPhase::running}});
  runs.see(Board{});
  EXPECT_EQ(runs.count(), 1u);
  EXPECT_FALSE(runs.awaits_more());
  runs.see(Board{{.id = 2, .phase = RunPhase::running}});
  runs.see(Board{{.id = 2, .phase = RunPhase::ending}});
  EXPECT_EQ(runs.count(), 1u);
  EXPECT_TRUE(runs.awaits_more());
  runs.see(Board{{.id = 2, .phase = RunPhase::canceled}});
  runs.see(Board{});
  EXPECT_EQ(runs.count(), 2u);
}

TEST(EndedRuns, DoesNotCountWhatNeverRan) {
  EndedRuns runs;
  runs.see(Board{{.id = 1, .phase = RunPhase::checking}});
  runs.see(Board{{.id = 1, .phase = RunPhase::refused}, {.id = 2, .phase = RunPhase::checking}});
  runs.see(Board{});
  EXPECT_EQ(runs.count(), 0u);
}

}  // namespace
}  // namespace rockhopper::apps::dag_node
