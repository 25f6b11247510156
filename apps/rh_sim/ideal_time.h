// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "apps/rh_sim/scenario.h"

namespace rockhopper::apps::sim {

/// How long a message of a flow takes when nothing else is in the network and nothing is lost: what
/// "slowdown" is measured against. Each link of a shortest path stores a packet and forwards it at
/// its rate; hosts take no time.
class IdealTimes {
 public:
  /// The scenario must outlive it.
  explicit IdealTimes(const Scenario& scenario);

  /// From the post of one message to its completion. Nothing for flows whose completion does not
  /// depend on the other end.
  [[nodiscard]] std::optional<std::uint64_t> of(const FlowSpec& flow);

 private:
  using Path = std::vector<const LinkSpec*>;

  /// Returns the links from a host to another, one of the shortest ways.
  [[nodiscard]] Path path(stack::sim::NodeIndex from, stack::sim::NodeIndex to);
  [[nodiscard]] std::vector<std::size_t> tree_to(stack::sim::NodeIndex root) const;

  const Scenario& scenario_;
  std::vector<std::vector<std::size_t>> links_of_;  ///< by node
  /// By the host that ways lead to: the link that each node takes.
  std::map<stack::sim::NodeIndex, std::vector<std::size_t>> trees_;
};

}  // namespace rockhopper::apps::sim
