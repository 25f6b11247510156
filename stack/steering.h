// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include <rte_mbuf.h>

namespace rockhopper::stack {

/// Lcores that can serve one port.
inline constexpr std::uint16_t kShardsMax = 16;

/// Which of the lcores that serve one port, its shards, a received packet is for.
class Steering {
 public:
  /// For what all must know: the answers of neighbours.
  static constexpr std::uint16_t kEveryShard = UINT16_MAX;

  Steering() = default;
  Steering(const Steering&) = delete;
  Steering& operator=(const Steering&) = delete;
  virtual ~Steering() = default;

  /// A shard's index or kEveryShard. Looks at headers and believes nothing: a wrong shard drops
  /// the packet. Any thread.
  [[nodiscard]] virtual std::uint16_t shard_of(const rte_mbuf* packet) const = 0;
};

}  // namespace rockhopper::stack
