// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Which server has a key (DG-14).
#include "apps/services/dag/placement.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/rng.h"
#include "tests/support/seed.h"

namespace rockhopper::dag {
namespace {

std::uint16_t server_of(const Placement& placement, std::string_view key) {
  return placement.server_of(std::as_bytes(std::span(key)));
}

// DG-14: evenly. With 10,000 keys a share is off by more than 10 % once in many millions.
TEST(Placement, HashesSpreadKeys) {
  sim::Rng rng(test::seed());
  for (const std::uint16_t servers : {std::uint16_t{1}, std::uint16_t{2}, std::uint16_t{4}}) {
    const auto placement = *Placement::create(PlacementPolicy::hash, servers);
    std::vector<unsigned> count(servers);
    for (unsigned i = 0; i < 10'000; ++i) {
      ++count.at(server_of(placement, std::to_string(rng.next())));
    }
    for (const unsigned share : count) {
      EXPECT_NEAR(share, 10'000.0 / servers, 0.1 * 10'000);
    }
  }
}

// DG-14.
TEST(Placement, TagsKeepKeysTogether) {
  sim::Rng rng(test::seed() + 1);
  const auto placement = *Placement::create(PlacementPolicy::affinity, 64);
  const auto by_hash = *Placement::create(PlacementPolicy::hash, 64);
  bool apart = false;
  for (int i = 0; i < 200; ++i) {
    const std::string tag = std::to_string(rng.next());
    const std::string a = "a{" + tag + "}" + std::to_string(rng.next());
    const std::string b = "{" + tag + "}" + std::to_string(rng.next()) + "{other}";
    EXPECT_EQ(server_of(placement, a), server_of(placement, b));
    EXPECT_EQ(server_of(placement, a), server_of(placement, tag));
    apart = apart || server_of(by_hash, a) != server_of(by_hash, b);
  }
  EXPECT_TRUE(apart);
  // Nothing between them is no tag.
  EXPECT_EQ(server_of(placement, "{}a"), server_of(by_hash, "{}a"));
  EXPECT_EQ(server_of(placement, "}a{b"), server_of(by_hash, "}a{b"));
}

// DG-14: against all rules, one by one.
TEST(Placement, TheLongestPrefixDecides) {
  sim::Rng rng(test::seed() + 2);
  const std::vector<PlacementRule> rules{{"", 7},     {"a", 1}, {"ab", 2},
                                         {"abcd", 3}, {"b", 4}, {"ba", 5}};
  const auto placement = *Placement::create(PlacementPolicy::table, 8, rules);
  for (int i = 0; i < 5'000; ++i) {
    std::string key;
    for (std::uint64_t length = rng.between(0, 6); length > 0; --length) {
      key += static_cast<char>('a' + rng.between(0, 3));
    }
    const PlacementRule* best = nullptr;
    for (const PlacementRule& rule : rules) {
      if (key.rfind(rule.prefix, 0) == 0 &&
          (best == nullptr || rule.prefix.size() > best->prefix.size())) {
        best = &rule;
      }
    }
    ASSERT_EQ(server_of(placement, key), best->server) << key;
  }
}

TEST(Placement, RefusesWhatMakesNoSense) {
  EXPECT_FALSE(Placement::create(PlacementPolicy::hash, 0));
  EXPECT_FALSE(Placement::create(PlacementPolicy::hash, 2, {{"a", 1}}));
  EXPECT_FALSE(Placement::create(PlacementPolicy::table, 2, {{"a", 2}}));
  EXPECT_FALSE(Placement::create(PlacementPolicy::table, 2, {{"a", 1}, {"b", 0}, {"a", 0}}));
  EXPECT_TRUE(Placement::create(PlacementPolicy::table, 2));
}

}  // namespace
}  // namespace rockhopper::dag
