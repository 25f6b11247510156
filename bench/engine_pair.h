// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "apps/node/node.h"
#include "bench/support.h"
#include "roce/engine.h"
#include "roce/lock/region.h"
#include "roce/random.h"
#include "stack/mbuf_pool.h"

namespace rockhopper::bench {

struct EnginePairConfig {
  roce::PathMtu path_mtu = roce::PathMtu::mtu_4096;
  std::uint32_t qps = 1;           ///< connections
  std::uint32_t outstanding = 64;  ///< requests, READs and atomics among them, of each connection
  std::uint8_t max_rd_atomic = 0;  ///< of each connection, both ways; 0: `outstanding`
  std::size_t memory = 1 << 20;    ///< bytes registered at each end
  bool locks = false;              ///< the responder executes them, in all its memory
  std::uint64_t turn_ns = 1000;    ///< that an exchange takes by the engines' clock
};

/// Two nodes without a link, each with its memory, between which an array carries the packets: what
/// each of them costs can be timed alone. The first is the requester.
class EnginePair {
 public:
  enum Side : std::size_t { requester, responder };

  explicit EnginePair(const EnginePairConfig& config);

  [[nodiscard]] roce::QueuePair& qp(std::uint32_t index) { return *ends_[requester].qps[index]; }
  [[nodiscard]] roce::QueuePair& peer(std::uint32_t index) { return *ends_[responder].qps[index]; }
  [[nodiscard]] roce::Engine& engine(Side side) { return ends_[side].node->engine(); }
  /// The protocol of that side, whose packets are moved.
  [[nodiscard]] stack::Host& host(Side side) { return ends_[side].node->host(); }
  [[nodiscard]] roce::ProtectionDomain pd(Side side) const { return ends_[side].pd; }
  [[nodiscard]] static stack::IpAddress address(Side side);
  [[nodiscard]] roce::CompletionQueue& cq(Side side) { return *ends_[side].cq; }
  [[nodiscard]] const roce::MemoryRegion& region(Side side) const { return ends_[side].region; }
  [[nodiscard]] roce::lock::Region& locks() { return *ends_[responder].locks; }

  /// Moves one burst each way.
  void exchange();

  /// Cycles of the time stamp counter that a side's engine took since the last call.
  [[nodiscard]] std::uint64_t take_cycles(Side side);

 private:
  struct End {
    stack::MbufPool pool;
    std::unique_ptr<roce::SeededRandom> random;
    std::vector<std::byte> memory;
    std::unique_ptr<roce::lock::Region> locks;
    std::unique_ptr<roce::CompletionQueue> cq;
    std::unique_ptr<Node> node;
    roce::ProtectionDomain pd;
    roce::MemoryRegion region;
    std::vector<roce::QueuePair*> qps;
    std::uint64_t cycles = 0;
  };

  [[nodiscard]] static End make_end(const EnginePairConfig& config, Side side);
  void connect_side(const EnginePairConfig& config, Side side);
  void move(End& from, End& to);

  std::array<End, 2> ends_;
  std::uint64_t turn_ns_;
  std::uint64_t now_ns_ = 0;
};

}  // namespace rockhopper::bench
