// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// How the records of a run come into the store, and out of it again.
#include "apps/services/dag/schedule/run_records.h"

#include <gtest/gtest.h>

#include "tests/dag_graph/graph_plan.h"
#include "tests/support/seed.h"
#include "tests/unit/dag_schedule/home_world.h"

namespace rockhopper::dag::test::run_records_test {
namespace {

constexpr unsigned kNodes = 20;

struct alignas(kRecordAlignment) Memory {
  std::byte bytes[1 << 16];
};

struct RunRecordsTest : ::testing::Test {
  void make(std::uint32_t most_records, std::size_t bytes = sizeof(Memory)) {
    store = *Store::create(std::span(memory->bytes).first(bytes), {.records = most_records});
    records = *RunRecords::create(*store, "run", *build(plan, digest_registry()));
  }
  [[nodiscard]] Status look_up(NodeIndex node) const {
    return store->lookup(bytes_of(records->nodes().key(node))).status;
  }

  std::unique_ptr<Memory> memory = std::make_unique<Memory>();
  const GraphPlan plan = random_plan({.seed = ::rockhopper::test::seed(), .nodes = kNodes});
  std::unique_ptr<Store> store;
  std::unique_ptr<RunRecords> records;
};

TEST_F(RunRecordsTest, AreInTheStoreOneByOneAndThenNoMore) {
  make(kNodes);
  const std::uint64_t free_bytes = store->free_bytes();
  ASSERT_TRUE(records->allocate());
  for (NodeIndex node = 0; node < kNodes; ++node) {
    EXPECT_EQ(look_up(node), Status::not_found);
    ASSERT_TRUE(records->make_next());
    EXPECT_EQ(look_up(node), Status::ok);
    EXPECT_EQ(records->words().dependencies(node), records->graph().predecessors(node).size());
  }
  for (NodeIndex node = kNodes; node-- > 0;) {
    records->erase_last(1);
    EXPECT_EQ(look_up(node), Status::not_found);
    EXPECT_EQ(records->count(), node);
  }
  records->release(1);
  EXPECT_FALSE(records->memory());
  store->quarantine().begin_grace();
  store->quarantine().end_grace();
  store->collect(1 + store->config().quarantine_ns);
  EXPECT_EQ(store->free_bytes(), free_bytes);
}

TEST_F(RunRecordsTest, AreErasedEvenIfSomebodyHasWrittenOverThem) {
  make(kNodes);
  ASSERT_TRUE(records->allocate());
  ASSERT_TRUE(records->make_next());
  const MapPlace place = records->nodes().place(0);
  std::ranges::fill(store->memory().subspan(place.address, place.length), std::byte{0x5a});
  ASSERT_EQ(look_up(0), Status::not_found);
  records->erase_last(1);
  EXPECT_EQ(store->size(), 0u);
}

TEST_F(RunRecordsTest, HaveNoMemoryIfThereAreTooManyOrTooLong) {
  make(kNodes - 1);
  EXPECT_FALSE(records->allocate());
  EXPECT_FALSE(records->memory());
  make(kNodes, 1024);
  EXPECT_FALSE(records->allocate());
  EXPECT_FALSE(records->memory());
}

TEST_F(RunRecordsTest, AreRefusedIfTheStoreTakesNoSuchRecord) {
  make(kNodes);
  const auto small = Store::create(std::span(memory->bytes), {.records = 1, .capacity_max = 8});
  EXPECT_FALSE(RunRecords::create(**small, "run", *build(plan, digest_registry())));
}

}  // namespace
}  // namespace rockhopper::dag::test::run_records_test
