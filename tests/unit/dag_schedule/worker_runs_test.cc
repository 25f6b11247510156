// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The runs of a home as a worker takes part in them.
#include "apps/services/dag/schedule/worker_runs.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace rockhopper::dag::worker_runs_test {
namespace {

constexpr std::uint64_t kStoreBytes = 1 << 20;
constexpr std::uint64_t kRecords = 4096;

BoardView::Run run_of(std::uint64_t id, RunPhase phase = RunPhase::running) {
  return {.id = id,
          .phase = phase,
          .nodes = 10,
          .records_address = kRecords,
          .records_bytes = 2000,
          .name = "run"};
}

class WorkerRunsTest : public ::testing::Test {
 protected:
  WorkerRunsTest() { (void)follow({run_of(1), run_of(2)}); }

  std::vector<WorkerRuns::Change> follow(const std::vector<BoardView::Run>& seen) {
    return runs_.follow(seen);
  }
  static DequeEntry entry() { return {.address = kRecords, .length = 128, .node = 3, .run = 1}; }
  [[nodiscard]] bool finds(const DequeEntry& entry) const { return runs_.find(entry) != nullptr; }

  WorkerRuns runs_{kStoreBytes};
};

TEST_F(WorkerRunsTest, FindsTheRunOfAnEntry) {
  ASSERT_TRUE(finds(entry()));
  EXPECT_EQ(runs_.find(entry())->id, 2u);
}

// An entry may be of an earlier run that had the slot, or nonsense: it must lead to a record of the
// run that is there now.
TEST_F(WorkerRunsTest, FindsNoneForAnEntryThatCannotBeOfIt) {
  DequeEntry wrong = entry();
  wrong.run = 2;
  EXPECT_FALSE(finds(wrong)) << "there is no such slot";
  wrong = entry();
  wrong.node = 10;
  EXPECT_FALSE(finds(wrong)) << "the run has no such node";
  wrong = entry();
  wrong.length = 64;
  EXPECT_FALSE(finds(wrong)) << "no record is so short";
  wrong = entry();
  wrong.address = kRecords - 64;
  EXPECT_FALSE(finds(wrong)) << "before its records";
  wrong.address = kRecords + 2048 - 64;
  EXPECT_FALSE(finds(wrong)) << "beyond them";
  wrong.address = kRecords + 2048 - 128;
  EXPECT_TRUE(finds(wrong)) << "the last one of them";
}

TEST_F(WorkerRunsTest, WithoutATellingBoardTheStoreIsTheLimit) {
  BoardView::Run run = run_of(1);
  run.records_address = run.records_bytes = 0;
  (void)follow({run});
  EXPECT_TRUE(finds({.address = kStoreBytes - 128, .length = 128, .node = 3}));
  EXPECT_FALSE(finds({.address = kStoreBytes - 64, .length = 128, .node = 3}));
}

TEST_F(WorkerRunsTest, ARunThatDoesNotGoOnIsNotFound) {
  for (const RunPhase phase : {RunPhase::checking, RunPhase::complete, RunPhase::ending}) {
    (void)follow({run_of(1), run_of(2, phase)});
    EXPECT_FALSE(finds(entry()));
    EXPECT_FALSE(runs_.is_going_on(1, 2));
    EXPECT_EQ(runs_.has_ended(entry()), phase != RunPhase::checking)
        << "what is being checked may go on";
  }
  (void)follow({run_of(1), {}});
  EXPECT_FALSE(runs_.has_ended(entry())) << "the board may have to be READ again";
  EXPECT_TRUE(runs_.has_ended({.run = 2}));
}

TEST_F(WorkerRunsTest, ASlotGoesOnWithTheSameRunOnly) {
  EXPECT_TRUE(runs_.is_going_on(1, 2));
  EXPECT_FALSE(runs_.is_going_on(1, 1));
}

TEST_F(WorkerRunsTest, LinksLeadIntoTheRun) {
  const NodeLink link{.address = kRecords, .length = 100, .node = 3};
  EXPECT_TRUE(runs_.may_lead_to(1, link));
  NodeLink wrong = link;
  wrong.address += 8;
  EXPECT_FALSE(runs_.may_lead_to(1, wrong)) << "no record begins there";
  wrong = link;
  wrong.length = kRecordLengthEnd - kRecordAlignment;
  EXPECT_FALSE(runs_.may_lead_to(1, wrong));
  wrong = link;
  wrong.node = 10;
  EXPECT_FALSE(runs_.may_lead_to(1, wrong));
}

TEST_F(WorkerRunsTest, TellsWhatHasChanged) {
  EXPECT_TRUE(follow({run_of(1), run_of(2)}).empty());

  auto changes = follow({run_of(1), run_of(2, RunPhase::complete)});
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].slot, 1u);
  EXPECT_FALSE(changes[0].is_another);
  EXPECT_TRUE(changes[0].has_ended);

  changes = follow({run_of(3), run_of(4)});
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_TRUE(changes[0].is_another);
  EXPECT_TRUE(changes[0].has_ended);
  EXPECT_TRUE(changes[1].is_another);
  EXPECT_EQ(runs_.at(1).id, 4u);
}

TEST_F(WorkerRunsTest, NothingHasEndedInASlotThatWasEmpty) {
  (void)follow({run_of(1), {}});
  const auto changes = follow({run_of(1), run_of(5)});
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_TRUE(changes[0].is_another);
  EXPECT_FALSE(changes[0].has_ended);
}

TEST_F(WorkerRunsTest, ReleasedNodesAreAddedOnceAndTogether) {
  EXPECT_EQ(runs_.take_released(1), 0u);
  runs_.on_released(1);
  runs_.on_released(1);
  EXPECT_TRUE(runs_.has_released());
  EXPECT_EQ(runs_.take_released(1), 2u);
  EXPECT_FALSE(runs_.has_released());
  runs_.on_released(1);
  EXPECT_EQ(runs_.take_released(1), 0u) << "one addition at a time";
  runs_.on_added(1);
  EXPECT_EQ(runs_.take_released(1), 1u);
}

// The board of another run must not count nodes of the one before; an addition under way still is.
TEST_F(WorkerRunsTest, AnotherRunCountsFromZero) {
  runs_.on_released(1);
  ASSERT_EQ(runs_.take_released(1), 1u);
  runs_.on_released(1);
  (void)follow({run_of(1), run_of(9)});
  EXPECT_FALSE(runs_.has_released());
  runs_.on_released(1);
  EXPECT_EQ(runs_.take_released(1), 0u);
  runs_.on_added(1);
  EXPECT_EQ(runs_.take_released(1), 1u);
}

}  // namespace
}  // namespace rockhopper::dag::worker_runs_test
