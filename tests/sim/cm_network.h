// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "roce/cm/connection_manager.h"
#include "roce/random.h"
#include "tests/sim/mad_peer.h"
#include "tests/sim/sim_network.h"

namespace rockhopper::sim {

struct CmNetworkConfig {
  NetworkConfig network;
  /// Engine and generator are the network's.
  std::array<roce::cm::ConnectionManagerConfig, 2> managers;
  bool bare_peer = false;  ///< node 1 has no connection manager, but what a test sends
};

/// The two endpoints of a SimNetwork, each with a connection manager and a little memory.
class CmNetwork {
 public:
  static constexpr std::uint32_t kMemoryBytes = 4096;

  explicit CmNetwork(const CmNetworkConfig& config);
  ~CmNetwork();
  CmNetwork(const CmNetwork&) = delete;
  CmNetwork& operator=(const CmNetwork&) = delete;

  [[nodiscard]] SimNetwork& network() { return network_; }
  [[nodiscard]] std::uint64_t now_ns() const { return network_.now_ns(); }
  [[nodiscard]] roce::Engine& engine(unsigned node) { return network_.node(node).engine(); }
  [[nodiscard]] roce::cm::ConnectionManager& manager(unsigned node) { return *managers_.at(node); }
  [[nodiscard]] MadPeer& peer() { return *peer_; }
  [[nodiscard]] std::uint64_t counter(unsigned node, const char* name) const;
  /// From a node to the other one.
  [[nodiscard]] roce::AddressVector path(unsigned node);

  /// In RESET; all share one protection domain and one completion queue.
  [[nodiscard]] roce::QueuePair& make_qp(unsigned node, roce::QpType type = roce::QpType::rc);
  [[nodiscard]] roce::CompletionQueue& cq(unsigned node) { return *ends_[node].cq; }
  [[nodiscard]] std::vector<std::uint8_t>& memory(unsigned node) { return ends_[node].memory; }
  /// That much of the node's memory.
  [[nodiscard]] roce::Sge sge(unsigned node, std::uint32_t offset, std::uint32_t length) const;

  /// Called for each event, in order. May call the managers.
  std::function<void(unsigned node, const roce::cm::Event& event)> on_event;

  /// Serves everybody until there is nothing to do at present.
  void settle();
  /// settle(), and time goes on to the next deadline, until `done`. False: `limit_ns` or nothing
  /// to wait for came before.
  [[nodiscard]] bool run_until(const std::function<bool()>& done,
                               std::uint64_t limit_ns = UINT64_MAX);
  /// True: nobody waits for anything any more.
  [[nodiscard]] bool run_to_rest(std::uint64_t limit_ns);
  /// Lets so much time pass.
  void run_for(std::uint64_t duration_ns);
  /// Times that somebody asked to be called at once and had nothing to do.
  [[nodiscard]] std::uint64_t busy_deadlines() const {
    return network_.busy_deadlines() + busy_deadlines_;
  }

 private:
  struct End {
    roce::ProtectionDomain pd;
    std::unique_ptr<roce::CompletionQueue> cq;
    std::vector<std::uint8_t> memory;
    roce::MemoryRegion region;
  };
  void serve();
  /// Sum of what moves when anything does.
  [[nodiscard]] std::uint64_t activity() const;
  [[nodiscard]] std::uint64_t next_deadline_ns() const;
  /// False: there is none up to the limit.
  [[nodiscard]] bool advance(std::uint64_t limit_ns);

  SimNetwork network_;
  std::array<roce::SeededRandom, 2> random_;
  std::array<std::unique_ptr<roce::cm::ConnectionManager>, 2> managers_;
  std::unique_ptr<MadPeer> peer_;
  std::array<End, 2> ends_;
  std::uint64_t events_ = 0;
  std::uint64_t busy_deadlines_ = 0;
};

}  // namespace rockhopper::sim
