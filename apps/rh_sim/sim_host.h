// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/common/latency_histogram.h"
#include "apps/node/node.h"
#include "apps/rh_sim/flow.h"
#include "apps/rh_sim/scenario.h"
#include "roce/completion_queue.h"
#include "roce/engine.h"
#include "roce/random.h"
#include "stack/application.h"
#include "stack/sim/network.h"
#include "stack/sim/station.h"

namespace rockhopper::apps::sim {

/// Bytes that all messages of a simulation are read from and written to. Their content is of no
/// interest here: the tests of the transport look at that.
struct SharedMemory {
  std::byte* base = nullptr;
  std::uint64_t bytes = 0;
};

/// A RoCEv2 endpoint of a simulated network with its application: the flows that start here, and
/// the receive requests of those that end here.
class SimHost final : private stack::Application {
 public:
  struct Config {
    const Scenario* scenario = nullptr;  ///< not owned
    stack::sim::Network* network = nullptr;
    stack::sim::NodeIndex node = 0;
    rte_mempool* pool = nullptr;
    SharedMemory memory;
    std::uint32_t queue_pairs = 0;  ///< that will be made at most
    std::uint32_t completions = 0;  ///< that may wait at once
    std::string capture{};          ///< empty: none
    /// By group of flows; takes the latency of each message that completes. Not owned.
    std::vector<LatencyHistogram>* latencies = nullptr;
  };
  [[nodiscard]] static Expected<std::unique_ptr<SimHost>> create(const Config& config);
  SimHost(const SimHost&) = delete;
  SimHost& operator=(const SimHost&) = delete;
  ~SimHost() override;

  /// Makes a queue pair and an address for each other: one connection for the flow, with receive
  /// requests at `to` if it needs them. `flow` is not owned.
  [[nodiscard]] static Expected<void> join(Flow& flow, SimHost& from, SimHost& to);
  /// The first turn.
  void start() { station_->wake(network_.now_ns()); }
  /// False if the capture is not complete.
  [[nodiscard]] bool finish() {
    stack::PcapWriter* capture = node_->links().capture();
    return capture == nullptr || capture->flush();
  }

  [[nodiscard]] const roce::Engine& engine() const { return node_->engine(); }
  [[nodiscard]] stack::sim::Nic& nic() { return nic_; }

 private:
  explicit SimHost(const Config& config);
  [[nodiscard]] Expected<void> build();
  /// Returns the rate of its one link in bits/s.
  [[nodiscard]] std::uint64_t line_rate() const;
  [[nodiscard]] Expected<roce::QueuePair*> make_qp(const FlowSpec& flow, bool receives);
  void post_receive(roce::QueuePair& qp, Flow& flow);
  std::uint64_t turn(std::uint64_t now_ns) override;
  void take_sends(std::uint64_t now_ns);
  void take_receives();

  Config config_;
  stack::sim::Network& network_;
  stack::sim::Nic& nic_;
  stack::IpAddress address_;
  roce::SeededRandom random_;
  std::unique_ptr<roce::CompletionQueue> send_cq_;
  std::unique_ptr<roce::CompletionQueue> recv_cq_;
  std::unique_ptr<Node> node_;
  roce::ProtectionDomain pd_;
  roce::MemoryRegion region_;
  std::unique_ptr<stack::sim::Station> station_;
  std::vector<Flow*> flows_;                      ///< that start here
  std::array<roce::Completion, 32> completions_;  ///< of the poll in hand
  std::uint64_t next_post_ns_ = 0;
  std::uint64_t start_ns_;
};

}  // namespace rockhopper::apps::sim
