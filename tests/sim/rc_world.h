// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/sim/memory_windows.h"
#include "tests/sim/node_memory.h"
#include "tests/sim/rc_channel.h"
#include "tests/sim/rc_run.h"
#include "tests/sim/rng.h"
#include "tests/sim/shared_receives.h"
#include "tests/sim/sim_network.h"

namespace rockhopper::sim {

/// A connection: two queue pairs and a channel each way. Of XRC, one is the target and asks
/// nothing.
struct Connection {
  std::array<Endpoint, 2> ends;                           ///< by node
  std::array<std::unique_ptr<MemoryWindows>, 2> windows;  ///< by node; null without windows
  std::array<std::unique_ptr<RcChannel>, 2> channels;     ///< by the requester's node
  std::array<std::uint16_t, 2> pkey_index{};              ///< by node
};

/// A completion queue, polled freely or only after its event.
class SimCq final : public roce::CompletionHandler {
 public:
  SimCq(std::uint32_t capacity, bool by_event);
  void on_completion_event(roce::CompletionQueue& /*cq*/) override { raised_ = true; }
  [[nodiscard]] bool due() const { return !by_event_ || raised_; }
  void rearm();
  std::unique_ptr<roce::CompletionQueue> queue;

 private:
  bool by_event_;
  bool raised_ = false;
};

/// What a run of reliable connections takes place in, made from its seed: two nodes with their
/// memory, and the objects of verbs that connect them.
class RcWorld {
 public:
  RcWorld(std::uint64_t seed, const RcProfile& profile, PoolSet& pools);

 protected:
  void set_up();
  /// Gives every connection its channels, and the model the memory as it is then.
  void connect_all();

  template <typename Action>
  void for_each_channel(Action action) const {
    for (const auto& connection : connections_) {
      for (const auto& channel : connection->channels) {
        if (channel != nullptr) action(*channel);
      }
    }
  }
  template <typename Action>
  void for_each_end(Action action) const {
    for (const auto& connection : connections_) {
      for (const Endpoint& end : connection->ends) {
        action(end);
      }
    }
  }

  Rng rng_;
  const RcProfile& profile_;
  RcSettings settings_;
  NetworkConfig network_config_;
  SimNetwork network_;
  std::array<std::unique_ptr<NodeMemory>, 2> memories_;
  std::array<SharedWords, 2> shared_;
  std::array<std::vector<std::unique_ptr<SharedReceives>>, 2> receives_;  ///< a node's SRQs
  std::array<roce::ProtectionDomain, 2> pds_;
  std::vector<std::unique_ptr<SimCq>> cqs_;
  std::vector<std::unique_ptr<Connection>> connections_;
  bool may_fail_;

 private:
  SimCq& make_cq(std::uint32_t capacity);
  void make_memory(unsigned node, std::uint32_t connections);
  void make_shared_words(unsigned node);
  void make_shared_receives(unsigned node);
  void make_xrc_receives(unsigned node, std::uint32_t connections);
  void make_queue_pairs(std::uint32_t count);
  void make_xrc_queue_pairs(std::uint32_t count);
  void make_windows(Connection& connection);
  void connect(Connection& connection);
  void bring_up(unsigned node, Connection& connection, wire::Psn rq_psn, wire::Psn sq_psn);

  std::array<std::vector<roce::XrcDomain>, 2> xrcds_;
  std::uint32_t next_channel_ = 0;
  std::uint32_t next_receives_ = 0;
};

}  // namespace rockhopper::sim
