// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/graph/function_registry.h"

#include <gtest/gtest.h>

namespace rockhopper::dag {
namespace {

// DG-42: functions are known by number and version.
TEST(FunctionRegistry, KnowsVersions) {
  FunctionRegistry registry;
  ASSERT_TRUE(registry.add_known({5, 1}, "align"));
  ASSERT_TRUE(registry.add_known({5, 4}, "align"));
  EXPECT_TRUE(registry.check({5, 1}));
  EXPECT_TRUE(registry.check({5, 4}));
  EXPECT_EQ(registry.check({5, 2}).error().message,
            "function 5 ('align') has no version 2; known: 1, 4");
  EXPECT_EQ(registry.check({6, 1}).error().message, "function 6 is not known");
  EXPECT_EQ(registry.check({4, 1}).error().message, "function 4 is not known");
  EXPECT_EQ(registry.find({5, 4})->name, "align");
  EXPECT_FALSE(registry.find({5, 4})->function);
}

TEST(FunctionRegistry, RefusesTheSameTwice) {
  FunctionRegistry registry;
  ASSERT_TRUE(registry.add_known({5, 1}, "align"));
  EXPECT_EQ(registry.add_known({5, 1}, "align").error().message,
            "function 5 ('align') version 1 is registered already");
  EXPECT_EQ(registry.add_known({5, 2}, "sort").error().message,
            "function 5 is 'align' already, and cannot be 'sort'");
  EXPECT_FALSE(registry.find({5, 2}));
}

}  // namespace
}  // namespace rockhopper::dag
