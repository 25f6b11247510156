// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The server's map against a model (DG-4, DG-6).
#include "apps/services/dag/map.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/rng.h"
#include "tests/support/seed.h"

namespace rockhopper::dag::map_test {
namespace {

struct Known {
  std::uint64_t hash;
  MapPlace place;
};

class MapModel : public ::testing::TestWithParam<unsigned> {};

// DG-6: all entries whose hash code matches are candidates, however many collide.
TEST_P(MapModel, FindsWhatWasInserted) {
  const unsigned bits = GetParam();
  sim::Rng rng(test::seed() + bits);
  for (const std::uint32_t records : {1u, 2u, 3u, 7u, 500u}) {
    Map map(records, bits);
    std::vector<Known> known;
    std::uint64_t address = 0;
    for (int i = 0; i < 5'000; ++i) {
      if (rng.chance(55)) {
        const Known added{rng.next(),
                          {.incarnation = rng.next(),
                           .address = address += 64,
                           .length = rng.between32(1, 1000),
                           .flags = static_cast<std::uint16_t>(rng.next())}};
        ASSERT_EQ(map.insert(added.hash, added.place), known.size() < records);
        if (known.size() < records) known.push_back(added);
      } else if (!known.empty()) {
        const auto gone =
            known.begin() + static_cast<std::ptrdiff_t>(rng.between(0, known.size() - 1));
        ASSERT_TRUE(map.erase(gone->hash, gone->place.address));
        ASSERT_FALSE(map.erase(gone->hash, gone->place.address));
        known.erase(gone);
      }
      ASSERT_EQ(map.size(), known.size());
    }
    for (const Known& one : known) {
      std::size_t candidates = 0;
      EXPECT_FALSE(map.find(one.hash, [&](const MapPlace&) {
        ++candidates;
        return false;
      }));
      const auto same = std::count_if(known.begin(), known.end(), [&](const Known& other) {
        return other.hash >> (64 - bits) == one.hash >> (64 - bits);
      });
      EXPECT_GE(candidates, static_cast<std::size_t>(same));
      const auto found = map.find(
          one.hash, [&](const MapPlace& place) { return place.address == one.place.address; });
      ASSERT_TRUE(found);
      EXPECT_EQ(*found, one.place);
    }
    std::size_t visited = 0;
    map.for_each([&](const MapPlace&) { ++visited; });
    EXPECT_EQ(visited, known.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Bits, MapModel, ::testing::Values(1u, 8u, 20u, 64u));

}  // namespace
}  // namespace rockhopper::dag::map_test
