// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stack/error.h"

namespace rockhopper::dag {

/// How keys are shared out to the servers (DG-14).
enum class PlacementPolicy : std::uint8_t {
  hash,      ///< evenly, by the whole key
  affinity,  ///< by what is in the key between the first '{' and the next '}', if there is
             ///< anything: keys with the same tag are at the same server
  table,     ///< by the longest prefix that is in a table; the rest as affinity
};

struct PlacementRule {
  std::string prefix;  ///< of keys
  std::uint16_t server = 0;
};

/// Which server has a key. All clients of the same servers need the same one. Immutable.
class Placement {
 public:
  /// `rules` is for PlacementPolicy::table only, up to kRulesMax; no prefix twice.
  static constexpr std::size_t kRulesMax = 4096;
  [[nodiscard]] static Expected<Placement> create(PlacementPolicy policy, std::uint16_t servers,
                                                  std::vector<PlacementRule> rules = {});

  [[nodiscard]] std::uint16_t server_of(std::span<const std::byte> key) const;
  [[nodiscard]] PlacementPolicy policy() const { return policy_; }
  [[nodiscard]] std::uint16_t servers() const { return servers_; }

 private:
  Placement(PlacementPolicy policy, std::uint16_t servers, std::vector<PlacementRule> rules);

  PlacementPolicy policy_;
  std::uint16_t servers_;
  std::vector<PlacementRule> rules_;  ///< by prefix
  std::size_t longest_ = 0;           ///< of the prefixes
};

}  // namespace rockhopper::dag
