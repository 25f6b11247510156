// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// A client's own map (DG-5, DG-6, DG-16).
#include "apps/services/dag/directory.h"

#include <algorithm>
#include <array>
#include <list>

#include <gtest/gtest.h>

#include "tests/sim/rng.h"
#include "tests/support/seed.h"

namespace rockhopper::dag::directory_test {
namespace {

struct Known {
  std::uint16_t server;
  Entry entry;
};

// Against a list in the order of use.
TEST(Directory, HasWhatWasUsedLast) {
  sim::Rng rng(test::seed());
  constexpr std::size_t kEntries = 40;
  Directory directory(kEntries);
  std::list<Known> model;
  for (int i = 0; i < 30'000; ++i) {
    const Known one{static_cast<std::uint16_t>(rng.between(0, 2)),
                    {.hash = rng.between(0, 15),
                     .incarnation = rng.between(1, 8),
                     .address = rng.next(),
                     .length = rng.between32(1, 100),
                     .rkey = roce::MemoryKey{7}}};
    const auto same = std::find_if(model.begin(), model.end(), [&](const Known& other) {
      return other.server == one.server && other.entry.hash == one.entry.hash &&
             other.entry.incarnation == one.entry.incarnation;
    });
    switch (rng.between(0, 3)) {
      case 0:
      case 1: {
        const bool full = same == model.end() && model.size() == kEntries;
        ASSERT_EQ(directory.insert(one.server, one.entry), full);
        if (same != model.end()) model.erase(same);
        if (full) model.pop_back();
        model.push_front(one);
        break;
      }
      case 2:
        directory.touch(one.server, one.entry);
        if (same != model.end()) model.splice(model.begin(), model, same);
        break;
      default:
        ASSERT_EQ(directory.erase(one.server, one.entry), same != model.end());
        if (same != model.end()) model.erase(same);
        break;
    }
    ASSERT_EQ(directory.size(), model.size());
    std::array<Entry, kEntries> found;
    const std::size_t count = directory.candidates(one.server, one.entry.hash, found);
    std::size_t expected = 0;
    for (const Known& other : model) {
      if (other.server != one.server || other.entry.hash != one.entry.hash) continue;
      ASSERT_LT(expected, count);
      ASSERT_EQ(found[expected++], other.entry);
    }
    ASSERT_EQ(count, expected);
  }
  directory.erase_all(1);
  model.remove_if([](const Known& one) { return one.server == 1; });
  EXPECT_EQ(directory.size(), model.size());
}

}  // namespace
}  // namespace rockhopper::dag::directory_test
