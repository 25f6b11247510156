// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// How many nodes a worker has in hand, by how far they are.
#include "apps/services/dag/schedule/window.h"

#include <vector>

#include <gtest/gtest.h>

namespace rockhopper::dag {
namespace {

using Place = Window::Place;

TEST(Window, CountsByPlace) {
  Window window;
  Place a = Place::none;
  Place b = Place::none;
  window.move(a, Place::ahead);
  window.move(b, Place::inside);
  EXPECT_EQ(window.ahead(), 1u);
  EXPECT_EQ(window.active(), 2u);
  EXPECT_EQ(window.in_hand(), 2u);

  window.move(a, Place::inside);
  EXPECT_EQ(window.ahead(), 0u);
  EXPECT_EQ(window.active(), 2u);

  window.move(a, Place::waiting);
  EXPECT_EQ(window.active(), 1u) << "what only waits takes up nothing";
  EXPECT_EQ(window.in_hand(), 2u);

  window.move(a, Place::none);
  window.move(b, Place::none);
  EXPECT_EQ(window.in_hand(), 0u);
  EXPECT_EQ(a, Place::none);
}

TEST(Window, AMoveToTheSamePlaceChangesNothing) {
  Window window;
  Place place = Place::none;
  window.move(place, Place::waiting);
  window.move(place, Place::waiting);
  EXPECT_EQ(window.in_hand(), 1u);
  window.move(place, Place::none);
  window.move(place, Place::none);
  EXPECT_EQ(window.in_hand(), 0u);
}

TEST(Window, SomeMayWaitOutsideOfIt) {
  Window window;
  std::vector<Place> places(Window::kWaitingMax, Place::none);
  for (Place& place : places) {
    ASSERT_TRUE(window.has_room_to_wait());
    window.move(place, Place::waiting);
  }
  EXPECT_FALSE(window.has_room_to_wait());
  window.move(places[0], Place::none);
  EXPECT_TRUE(window.has_room_to_wait());
}

}  // namespace
}  // namespace rockhopper::dag
