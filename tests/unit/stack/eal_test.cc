// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/eal.h"

#include <algorithm>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rte_lcore.h>

namespace rockhopper::stack {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

template <std::size_t N>
Arguments split(const char* const (&argv)[N]) {
  return split_arguments(static_cast<int>(N), argv);
}

TEST(SplitArguments, WithoutSeparatorAllAreTheApplications) {
  const Arguments arguments = split({"rh-x", "--ip", "10.0.0.1/24", "-n", "5"});
  EXPECT_TRUE(arguments.embedded);
  EXPECT_THAT(arguments.eal, IsEmpty());
  EXPECT_THAT(arguments.application, ElementsAre("--ip", "10.0.0.1/24", "-n", "5"));
}

TEST(SplitArguments, SeparatorDividesEalFromApplication) {
  const Arguments arguments = split({"rh-x", "-l", "0", "--", "--size", "4"});
  EXPECT_FALSE(arguments.embedded);
  EXPECT_THAT(arguments.eal, ElementsAre("-l", "0"));
  EXPECT_THAT(arguments.application, ElementsAre("--size", "4"));
}

TEST(SplitArguments, OnlyTheFirstSeparatorCounts) {
  const Arguments arguments = split({"rh-x", "--", "a", "--", "b"});
  EXPECT_FALSE(arguments.embedded);
  EXPECT_THAT(arguments.eal, IsEmpty());
  EXPECT_THAT(arguments.application, ElementsAre("a", "--", "b"));
}

TEST(SplitArguments, NothingAtAll) {
  const Arguments arguments = split({"rh-x"});
  EXPECT_TRUE(arguments.embedded);
  EXPECT_THAT(arguments.application, IsEmpty());
}

TEST(Eal, StartsOnlyOnce) {
  EXPECT_TRUE(Eal::running());
  const auto second = Eal::start(Arguments{});
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::invalid_state);
  EXPECT_EQ(std::count(second.error().message.begin(), second.error().message.end(), '\n'), 0);
}

TEST(Eal, RefusesAnImpossibleNumberOfLcores) {
  const auto eal = Eal::start(Arguments{}, {.lcores = 0});
  ASSERT_FALSE(eal.has_value());
  EXPECT_EQ(eal.error().code, ErrorCode::invalid_argument);
}

TEST(Eal, EmbeddedLcoresFloatOverAllAllowedCpus) {
  // The environment of this program asked for three lcores, on however few CPUs.
  EXPECT_EQ(rte_lcore_count(), 3u);
  cpu_set_t process;
  ASSERT_EQ(sched_getaffinity(getpid(), sizeof(process), &process), 0);
  unsigned lcore = 0;
  RTE_LCORE_FOREACH(lcore) {
    const rte_cpuset_t lcore_cpus = rte_lcore_cpuset(lcore);
    EXPECT_TRUE(CPU_EQUAL(&lcore_cpus, &process)) << lcore;
  }
}

}  // namespace
}  // namespace rockhopper::stack
