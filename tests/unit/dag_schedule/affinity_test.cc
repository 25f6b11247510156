// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Which nodes a worker may run.
#include "apps/services/dag/schedule/affinity.h"

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace rockhopper::dag::affinity_test {
namespace {

constexpr std::uint32_t kMe = 7;
constexpr std::uint32_t kOther = 9;

std::vector<WorkerSlot> board(std::initializer_list<std::uint32_t> clients) {
  std::vector<WorkerSlot> workers(1);  // an empty slot
  for (const std::uint32_t client : clients) {
    workers.emplace_back().client = client;
  }
  return workers;
}

NodeLink predecessor(NodeIndex node, std::uint32_t affinity) {
  return {.node = node, .constraints = {.set = kData | kAffinity, .affinity = affinity}};
}

class AffinityTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::uint32_t label_of(std::vector<NodeLink> predecessors) const {
    const NodeView node{.predecessors = std::move(predecessors)};
    return affinity_.entry_label_of(node, 3);
  }
  Affinity affinity_{{5, kWorkerLabel | 6}, kMe};
  std::vector<WorkerSlot> workers_ = board({kMe, kOther});
};

TEST_F(AffinityTest, HasItsLabelsOnly) {
  EXPECT_TRUE(affinity_.has(5));
  EXPECT_TRUE(affinity_.has(kWorkerLabel | 6));
  EXPECT_FALSE(affinity_.has(6));
}

TEST_F(AffinityTest, AnEntryWithoutALabelIsForAnybody) {
  EXPECT_TRUE(affinity_.may_fit(0, workers_));
}

// The entry has a label's lower bits only.
TEST_F(AffinityTest, AnEntryFitsOneOfTheLabels) {
  EXPECT_TRUE(affinity_.may_fit(entry_label(5), workers_));
  EXPECT_TRUE(affinity_.may_fit(entry_label(kWorkerLabel | 6), workers_));
  EXPECT_FALSE(affinity_.may_fit(entry_label(8), workers_));
}

TEST_F(AffinityTest, AnEntryForAWorkerFitsThatOne) {
  EXPECT_TRUE(affinity_.may_fit(entry_worker(kMe), workers_));
  EXPECT_FALSE(affinity_.may_fit(entry_worker(kOther), workers_));
  EXPECT_TRUE(affinity_.may_fit(kWorkerLabel, workers_)) << "its record has to be looked at";
}

TEST_F(AffinityTest, AnEntryForAWorkerThatIsGoneMayFitAnybody) {
  EXPECT_TRUE(affinity_.may_fit(entry_worker(kOther), board({kMe})));
}

TEST_F(AffinityTest, ANodeThatFollowsItsPredecessorIsForThisWorker) {
  EXPECT_EQ(label_of({predecessor(3, kSameWorker)}), entry_worker(kMe));
  EXPECT_EQ(label_of({predecessor(4, kSameWorker)}), kWorkerLabel)
      << "another predecessor's worker is not known here";
}

TEST_F(AffinityTest, ANodeWithALabelHasItsLowerBits) {
  EXPECT_EQ(label_of({predecessor(3, 12)}), 12u);
  EXPECT_EQ(label_of({predecessor(3, 12), predecessor(4, kWorkerLabel)}), 12u)
      << "a label without lower bits says nothing";
  EXPECT_EQ(label_of({predecessor(3, kWorkerLabel)}), kWorkerLabel);
}

TEST_F(AffinityTest, EdgesWithoutAnAffinityDoNotMatter) {
  EXPECT_EQ(label_of({{.node = 3, .constraints = {.set = kData}}, predecessor(4, 12)}), 12u);
}

}  // namespace
}  // namespace rockhopper::dag::affinity_test
