// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <vector>

#include "stack/flow_rule.h"
#include "stack/steering.h"

namespace rockhopper::roce {

/// Steers by the shard that the low bits of a destination QPN name (EngineConfig::shards). What is
/// for no queue pair goes to shard 0, which alone answers ARP, neighbour discovery and echo;
/// neighbours' messages and everything to a group go to every shard.
class QpnSteering final : public stack::Steering {
 public:
  /// `shards`: a power of two up to stack::kShardsMax.
  explicit QpnSteering(std::uint16_t shards);

  [[nodiscard]] std::uint16_t shard_of(const rte_mbuf* packet) const override;

  /// The same for a NIC: a rule for each shard's queue, which has the shard's number.
  [[nodiscard]] std::vector<stack::FlowRule> rules() const;

 private:
  std::uint32_t mask_;
};

}  // namespace rockhopper::roce
