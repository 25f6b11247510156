// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/placement.h"

#include <algorithm>
#include <string_view>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace rockhopper::dag {
namespace {

/// Other bits than those that a server's map goes by.
constexpr std::uint64_t kSeed = 0x706c6163656d656e;

std::string_view tag_of(std::string_view key) {
  const std::size_t open = key.find('{');
  if (open == std::string_view::npos) return key;
  const std::size_t close = key.find('}', open + 1);
  if (close == std::string_view::npos || close == open + 1) return key;
  return key.substr(open + 1, close - open - 1);
}

bool before(const PlacementRule& a, const PlacementRule& b) { return a.prefix < b.prefix; }

}  // namespace

Placement::Placement(PlacementPolicy policy, std::uint16_t servers,
                     std::vector<PlacementRule> rules)
    : policy_(policy), servers_(servers), rules_(std::move(rules)) {
  std::sort(rules_.begin(), rules_.end(), before);
  for (const PlacementRule& rule : rules_) {
    longest_ = std::max(longest_, rule.prefix.size());
  }
}

Expected<Placement> Placement::create(PlacementPolicy policy, std::uint16_t servers,
                                      std::vector<PlacementRule> rules) {
  if (servers == 0) return fail(ErrorCode::invalid_argument, "a placement needs a server");
  if (policy != PlacementPolicy::table && !rules.empty()) {
    return fail(ErrorCode::invalid_argument, "only a placement by table has rules");
  }
  if (rules.size() > kRulesMax) {
    return fail(ErrorCode::invalid_argument, "a placement has {} rules at most", kRulesMax);
  }
  for (const PlacementRule& rule : rules) {
    if (rule.server >= servers) {
      return fail(ErrorCode::invalid_argument,
                  "the rule for '{}' names server {}, but there are {}", rule.prefix, rule.server,
                  servers);
    }
  }
  Placement placement(policy, servers, std::move(rules));
  const auto& sorted = placement.rules_;
  const auto twice = std::adjacent_find(
      sorted.begin(), sorted.end(),
      [](const PlacementRule& a, const PlacementRule& b) { return a.prefix == b.prefix; });
  if (twice != sorted.end()) {
    return fail(ErrorCode::invalid_argument, "there are two rules for '{}'", twice->prefix);
  }
  return placement;
}

std::uint16_t Placement::server_of(std::span<const std::byte> key) const {
  const std::string_view text(reinterpret_cast<const char*>(key.data()), key.size());
  if (policy_ == PlacementPolicy::table && !rules_.empty()) {
    for (std::size_t length = std::min(longest_, text.size()) + 1; length-- > 0;) {
      const std::string_view prefix = text.substr(0, length);
      const auto rule =
          std::lower_bound(rules_.begin(), rules_.end(), prefix,
                           [](const PlacementRule& a, std::string_view b) { return a.prefix < b; });
      if (rule != rules_.end() && rule->prefix == prefix) return rule->server;
    }
  }
  const std::string_view hashed = policy_ == PlacementPolicy::hash ? text : tag_of(text);
  const std::uint64_t hash = XXH3_64bits_withSeed(hashed.data(), hashed.size(), kSeed);
  return static_cast<std::uint16_t>((hash >> 32) * servers_ >> 32);
}

}  // namespace rockhopper::dag
