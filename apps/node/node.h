// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <rte_ether.h>

#include "apps/node/node_config.h"
#include "apps/node/node_links.h"
#include "apps/node/shard.h"
#include "dc/endpoint.h"
#include "roce/engine.h"
#include "roce/random.h"
#include "stack/application.h"
#include "stack/clock.h"
#include "stack/error.h"
#include "stack/host.h"
#include "stack/idle.h"
#include "stack/mbuf_pool.h"
#include "stack/port.h"
#include "stack/telemetry.h"
#include "stack/worker.h"

namespace rockhopper {

/// A RoCEv2 endpoint put together: ports, the IP host, the engine, dynamic connections, the worker
/// that moves packets between them, and telemetry. A NodeConfig says what it is made of.
///
/// It is the same on a device, on a memif link to another process, on a cable to another node of
/// this process, and in a simulated network, whose clock it is given then. A process starts an EAL
/// first (stack::Eal::start) and ends it after its nodes.
///
/// Nothing moves by itself. Either one thread calls turn() in its loop, between its posts and
/// polls; or launch() has a lcore serve a shard, with an application that has its turn there. All
/// calls to a shard's host, engine and what they made come from the thread that serves it.
class Node {
 public:
  /// Fails with `invalid_state` without an EAL, with `timeout` when the server of a memif link does
  /// not come, and as its parts do.
  [[nodiscard]] static Expected<std::unique_ptr<Node>> open(NodeConfig config);
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  /// Stops what runs on lcores. The queues that the node's queue pairs use have to be there still.
  ~Node();

  /// Moves packets both ways once, of all shards that no lcore serves; true if any did. When none
  /// has for some turns, it rests as the configuration says.
  bool turn();
  /// When turn() has work again if nothing arrives and nothing is posted; kNever if it has not.
  [[nodiscard]] std::uint64_t next_deadline_ns() const;
  /// The time that turns are told.
  [[nodiscard]] std::uint64_t now_ns() const { return clock_->now_ns(); }
  void set_idle(stack::IdlePolicy idle) { idler_.set_policy(idle); }

  /// From now on that waiting lcore of the EAL, which is not the main one, serves the shard, and
  /// `application`, if any, has its turn after each of the shard's. It is not owned.
  [[nodiscard]] Expected<void> launch(std::uint16_t shard, unsigned lcore_id,
                                      stack::Application* application = nullptr);
  /// Ends what lcores do and waits for it; the calling thread may use their shards then. For good.
  void stop();

  /// Serves the node until its link is up (of memif, until the peer has connected), at most the
  /// configured time. With one thread only.
  [[nodiscard]] Expected<void> wait_for_link();
  /// Looks at the link now and then, and tells the engines what has become of it; false when it was
  /// up and no longer is: a memif peer has gone. Cheap. With one thread only.
  [[nodiscard]] bool check_link();

  [[nodiscard]] std::uint16_t shards() const { return static_cast<std::uint16_t>(shards_.size()); }
  [[nodiscard]] Shard& shard(std::uint16_t index) { return *shards_.at(index); }
  [[nodiscard]] const Shard& shard(std::uint16_t index) const { return *shards_.at(index); }
  // These belong to the first shard, which is the only one of most nodes.
  [[nodiscard]] roce::Engine& engine() { return shards_[0]->engine(); }
  [[nodiscard]] const roce::Engine& engine() const { return shards_[0]->engine(); }
  [[nodiscard]] stack::Host& host() { return shards_[0]->host(); }
  [[nodiscard]] const stack::Host& host() const { return shards_[0]->host(); }
  [[nodiscard]] roce::Random& random() { return shards_[0]->random(); }
  /// Requires that dynamic connections are open.
  [[nodiscard]] dc::Endpoint& dc();
  /// Opens dynamic connections on each shard. Fails with `busy` where they are open.
  [[nodiscard]] Expected<void> open_dc(const dc::EndpointConfig& config = {});

  [[nodiscard]] const NodeConfig& config() const { return config_; }
  /// The GID table: the own addresses in order.
  [[nodiscard]] const std::vector<InterfaceAddress>& addresses() const { return config_.addresses; }
  /// The first own address. Requires that there is one.
  [[nodiscard]] const stack::IpAddress& address() const;
  /// The first own address of that family; `not_found`.
  [[nodiscard]] Expected<stack::IpAddress> address_of_family(bool ipv4) const;
  [[nodiscard]] rte_ether_addr mac() const { return mac_; }
  /// Ports, capture, and how packets reach shards.
  [[nodiscard]] const NodeLinks& links() const { return *links_; }

  using CounterVisit =
      std::function<void(const char* group, const char* name, std::uint64_t value)>;
  /// Every counter of every part.
  void visit_counters(const CounterVisit& visit) const;

 private:
  explicit Node(NodeConfig config);
  [[nodiscard]] Expected<void> make_pool();
  [[nodiscard]] Expected<void> make_shards();
  [[nodiscard]] std::vector<NamedCounters> counters() const;
  [[nodiscard]] NamedCounters dc_counters(std::size_t shard) const;
  [[nodiscard]] std::string shard_group(const char* part, std::size_t shard) const;
  [[nodiscard]] Expected<void> publish(NamedCounters counters);
  /// Telemetry tells of it.
  [[nodiscard]] bool is_published() const;
  [[nodiscard]] Expected<void> publish_queue_pairs();
  [[nodiscard]] std::string published_name(std::string group) const;
  [[nodiscard]] bool poll();
  void follow_groups();

  NodeConfig config_;
  stack::Idler idler_;
  // In order of construction; destroyed from the end on.
  std::unique_ptr<stack::TscClock> own_clock_;
  const stack::Clock* clock_ = nullptr;  ///< that one, or the configuration's
  stack::MbufPool own_pool_;             ///< of what is sent; ports' rings hold its mbufs
  std::unique_ptr<NodeLinks> links_;
  rte_ether_addr mac_{};
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<stack::CounterGroup> groups_;  ///< telemetry reads the parts, so they go first

  std::uint64_t groups_generation_ = 0;  ///< of the host's groups, as the ports know them
  bool was_up_ = false;
  bool link_alive_ = true;
  std::uint64_t next_link_check_ns_ = 0;
};

}  // namespace rockhopper
