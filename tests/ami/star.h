// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "apps/services/ami/adapter.h"
#include "apps/services/ami/context.h"
#include "roce/random.h"
#include "stack/fault_config.h"
#include "stack/sim/network.h"
#include "stack/sim/station.h"
#include "tests/sim/selective_drop.h"

namespace rockhopper::sim {

struct StarConfig {
  unsigned nodes = 2;
  bool dynamic_connections = false;  ///< else queue pairs
  std::uint8_t timeout = 9;          ///< local ACK timeout code, 2 ms; the retries are 7
  std::uint64_t rate_bits_per_s = 0;
  std::uint64_t delay_ns = 1'000;   ///< one way, of each node's link
  std::uint64_t delay_of_1_ns = 0;  ///< more, of node 1's
  stack::FaultRates faults{};       ///< of each direction of each link
  ami::AdapterConfig adapter{};
};

/// An application of one thread at a node of a star.
struct StarLane {
  unsigned node = 0;
  ami::EndpointId id = 0;
  ami::Lane* lane = nullptr;
  std::unique_ptr<ami::Context> context;
  bool stopped = false;  ///< it does not call advance()
};

/// Nodes with adapters around a switch, in virtual time. Applications inject from callbacks,
/// handlers and on_turn, or from outside followed by wake().
class Star {
 public:
  explicit Star(const StarConfig& config);
  ~Star();
  Star(const Star&) = delete;
  Star& operator=(const Star&) = delete;

  /// Known to all others by how many there have been before it. The star's.
  StarLane& add_lane(unsigned node, ami::LaneConfig config = {}, std::uint32_t queue = 64);
  /// They become each other's peers.
  void connect(StarLane& a, StarLane& b);
  /// All lanes, and a turn for everybody.
  void open();
  [[nodiscard]] roce::MemoryKey expose(unsigned node, void* memory, std::size_t bytes);
  template <typename T>
  [[nodiscard]] roce::MemoryKey expose(unsigned node, std::vector<T>& memory) {
    return expose(node, memory.data(), memory.size() * sizeof(T));
  }

  /// As when its process has been killed: nobody hears of it any more.
  void kill(unsigned node);
  void wake();
  /// Until that is true, which is looked at after each event. False: not before `limit_ns` from now
  /// have passed.
  [[nodiscard]] bool run_until(const std::function<bool()>& done, std::uint64_t limit_ns);

  [[nodiscard]] std::uint64_t now_ns() const { return network_.now_ns(); }
  [[nodiscard]] ami::Adapter& adapter(unsigned node);
  /// After each turn of a node's adapter and applications.
  std::function<void(unsigned node)> on_turn;

 private:
  struct Node;

  StarConfig config_;
  stack::sim::Network network_;
  std::vector<std::unique_ptr<StarLane>> lanes_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace rockhopper::sim
