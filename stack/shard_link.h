// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <rte_ring.h>

#include "stack/counter.h"
#include "stack/error.h"
#include "stack/link.h"
#include "stack/steering.h"

namespace rockhopper::stack {

/// The rings on which the shards of one port hand packets over to each other: one for each shard,
/// into which all others put. Must outlive the links that use it; frees what is left in them.
class ShardRings {
 public:
  /// `shards`: 1 to kShardsMax. `packets`: what a ring holds at least, up to 2^16.
  [[nodiscard]] static Expected<std::unique_ptr<ShardRings>> create(std::uint16_t shards,
                                                                    std::uint32_t packets = 1024);
  ShardRings(const ShardRings&) = delete;
  ShardRings& operator=(const ShardRings&) = delete;
  ~ShardRings();

  [[nodiscard]] std::uint16_t shards() const { return static_cast<std::uint16_t>(rings_.size()); }

 private:
  friend class ShardLink;
  ShardRings() = default;
  std::vector<rte_ring*> rings_;
};

struct ShardLinkCounters {
  Counter handed_over;     ///< to other shards
  Counter taken_over;      ///< from other shards
  Counter copied;          ///< for other shards, of what is for every one
  Counter hand_over_full;  ///< lost: the other shard's ring was full
  Counter no_mbuf;         ///< copies not made
};

/// One shard's part of a port: its queue, from which it keeps what is for it, and its ring, on
/// which the others' queues bring what a NIC that knows nothing of queue pairs put there. Packets
/// of one queue for one shard stay in order. A shard that is too slow loses packets as a NIC's full
/// queue does, and holds up no other. One thread.
class ShardLink final : public Link {
 public:
  /// References are not owned. `shard` is below rings.shards().
  ShardLink(Link& queue, ShardRings& rings, const Steering& steering, std::uint16_t shard);

  [[nodiscard]] std::uint16_t rx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  [[nodiscard]] std::uint16_t tx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override {
    return queue_.tx_burst(packets, count, now_ns);
  }
  [[nodiscard]] std::uint64_t next_deadline_ns() const override {
    return queue_.next_deadline_ns();
  }
  [[nodiscard]] rte_ether_addr mac() const override { return queue_.mac(); }
  [[nodiscard]] std::uint16_t mtu() const override { return queue_.mtu(); }

  [[nodiscard]] const ShardLinkCounters& counters() const { return counters_; }
  /// Any thread.
  void visit_counters(void (*visit)(void* context, const char* name, std::uint64_t value),
                      void* context) const;
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(void (*visit)(void* context, const char* name, const char* text),
                                void* context);

 private:
  static constexpr std::uint16_t kBatch = 32;
  /// Packets on their way to another shard.
  struct Batch {
    std::array<rte_mbuf*, kBatch> packets;
    std::uint16_t count = 0;
  };

  /// Hands over what is not for this shard; returns how many of the packets are left.
  [[nodiscard]] std::uint16_t sort(rte_mbuf** packets, std::uint16_t count);
  void copy_to_others(const rte_mbuf* packet);
  void put(std::uint16_t shard, rte_mbuf* packet);
  void flush(std::uint16_t shard);

  Link& queue_;
  ShardRings& rings_;
  const Steering& steering_;
  const std::uint16_t shard_;
  std::array<Batch, kShardsMax> batches_;  ///< empty between calls
  ShardLinkCounters counters_;
};

}  // namespace rockhopper::stack
