// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// How many requests of a service wait for the application.
#include "roce/cm/listeners.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace rockhopper::roce::cm::listeners_test {
namespace {

constexpr std::uint64_t kService = 0x1234;

TEST(Listeners, AServiceHasOneListener) {
  Listeners listeners;
  EXPECT_FALSE(listeners.has(kService));
  EXPECT_TRUE(listeners.add(kService, 2, kCapabilitySelectiveRepeat));
  EXPECT_FALSE(listeners.add(kService, 5, kNoCapabilities));
  EXPECT_TRUE(listeners.has(kService));
  EXPECT_EQ(listeners.offer(kService), kCapabilitySelectiveRepeat);
  listeners.remove(kService);
  EXPECT_FALSE(listeners.has(kService));
}

TEST(Listeners, SoManyRequestsWait) {
  Listeners listeners;
  ASSERT_TRUE(listeners.add(kService, 2, kNoCapabilities));
  Listeners::Place first{};
  Listeners::Place second{};
  listeners.take(first, kService);
  EXPECT_FALSE(listeners.is_crowded(kService));
  listeners.take(second, kService);
  EXPECT_TRUE(listeners.is_crowded(kService));
  listeners.leave(first, kService);
  EXPECT_FALSE(listeners.is_crowded(kService));
  listeners.leave(first, kService);
  listeners.take(first, kService);
  EXPECT_TRUE(listeners.is_crowded(kService)) << "a place is left once";
}

// What waited for a listener that is gone is not in the way of the next one.
TEST(Listeners, AnotherListenerBeginsWithNobody) {
  Listeners listeners;
  ASSERT_TRUE(listeners.add(kService, 1, kNoCapabilities));
  Listeners::Place place{};
  listeners.take(place, kService);
  listeners.remove(kService);
  Listeners::drop(place);
  ASSERT_TRUE(listeners.add(kService, 1, kNoCapabilities));
  EXPECT_FALSE(listeners.is_crowded(kService));
  Listeners::Place other{};
  listeners.take(other, kService);
  listeners.leave(place, kService);
  EXPECT_TRUE(listeners.is_crowded(kService));
}

}  // namespace
}  // namespace rockhopper::roce::cm::listeners_test
