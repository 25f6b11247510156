// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// When a memif client looks for its server again.
#include "stack/memif_reconnection.h"

#include <gtest/gtest.h>

namespace rockhopper::stack {
namespace {

TEST(MemifReconnection, OneThreadLooksAtATimeAndNotTooOften) {
  MemifReconnection reconnection;
  ASSERT_TRUE(reconnection.begin_look(1000));
  EXPECT_FALSE(reconnection.begin_look(1000 * kNsPerMs)) << "somebody looks";
  reconnection.end_look();
  EXPECT_FALSE(reconnection.begin_look(1001));
  EXPECT_TRUE(reconnection.begin_look(1000 + 50 * kNsPerMs));
}

TEST(MemifReconnection, PeersHaveTimeToShakeHands) {
  MemifReconnection reconnection;
  reconnection.on_started(0, false);
  EXPECT_TRUE(reconnection.is_in_handshake(999 * kNsPerMs));
  EXPECT_FALSE(reconnection.begin_look(999 * kNsPerMs));
  EXPECT_FALSE(reconnection.is_in_handshake(1000 * kNsPerMs));
  EXPECT_TRUE(reconnection.begin_look(1000 * kNsPerMs));
}

TEST(MemifReconnection, AGuardKnowsEarlier) {
  MemifReconnection reconnection;
  reconnection.on_started(0, true);
  EXPECT_FALSE(reconnection.begin_look(49 * kNsPerMs));
  EXPECT_TRUE(reconnection.is_in_handshake(50 * kNsPerMs));
  EXPECT_TRUE(reconnection.begin_look(50 * kNsPerMs));
}

}  // namespace
}  // namespace rockhopper::stack
