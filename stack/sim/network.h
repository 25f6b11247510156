// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stack/clock.h"
#include "stack/fault_config.h"
#include "stack/sim/channel.h"
#include "stack/sim/event_queue.h"
#include "stack/sim/nic.h"
#include "stack/sim/switch.h"

namespace rockhopper::stack::sim {

/// A host or a switch; they count from 0 together.
using NodeIndex = std::uint16_t;
using LinkIndex = std::uint32_t;
inline constexpr std::size_t kNodesMax = 16384;

struct LinkConfig {
  std::uint64_t rate_bits_per_s = 0;  ///< 0: without limit
  std::uint64_t delay_ns = 1000;      ///< one way
  std::uint16_t mtu = 9000;
  /// The output ports at those ends that are switches; the rate is the link's.
  net::OutputPortConfig switch_output{};
  std::uint64_t nic_queue_bytes = 32768;  ///< at a host's end; then its NIC takes no more
  std::size_t in_flight_packets = SIZE_MAX;
  /// tx: from the first node to the second, rx: back.
  std::optional<FaultConfig> faults{};
  rte_mempool* pool = nullptr;       ///< for what faults copy; not owned
  rte_mempool* copy_pool = nullptr;  ///< see ChannelConfig
  std::uint64_t segment_seed = 0;    ///< see ChannelConfig
};

/// A network in virtual time: hosts with one link each, switches with any number, links of given
/// rate and delay. First all nodes, then all links, then build(). One seed gives one behaviour.
/// Time stands still until somebody lets the events happen. Single-threaded.
class Network {
 public:
  explicit Network(std::uint64_t start_ns = 1'000'000'000);  // not 0: nothing may depend on it
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  ~Network();

  /// `priorities` are its NIC's.
  [[nodiscard]] NodeIndex add_host(const PriorityMap& priorities = {});
  [[nodiscard]] NodeIndex add_switch(const SwitchConfig& config);
  /// Joins two different nodes. A host has one link only.
  LinkIndex add_link(NodeIndex first, NodeIndex second, const LinkConfig& config);
  /// Finds the ways: each switch gets its routes. Fails if hosts have no link or cannot reach each
  /// other.
  [[nodiscard]] Expected<void> build();

  [[nodiscard]] const VirtualClock& clock() const { return clock_; }
  [[nodiscard]] std::uint64_t now_ns() const { return clock_.now_ns(); }
  [[nodiscard]] EventQueue& events() { return events_; }
  /// Runs what happens up to `limit_ns` and moves the clock there; with kNever, to the last event.
  /// Returns true if nothing is to happen any more.
  bool run_until(std::uint64_t limit_ns);
  /// Does the same, but for some of the events only. Returns true if that was all up to the limit.
  bool run_some(std::uint64_t limit_ns, std::size_t events);
  /// Moves the clock for callers that poll: no event may be before it.
  void advance_to(std::uint64_t now_ns);

  [[nodiscard]] std::size_t node_count() const { return nodes_.size(); }
  [[nodiscard]] std::size_t link_count() const { return links_.size(); }
  /// Returns the NIC of a host that has its link.
  [[nodiscard]] Nic& nic(NodeIndex host) { return *nodes_.at(host).nic; }
  [[nodiscard]] Switch& switch_at(NodeIndex node) { return *nodes_.at(node).fabric; }
  /// One direction: 0 from the link's first node to its second, 1 back.
  [[nodiscard]] Channel& channel(LinkIndex link, unsigned direction) {
    return *links_.at(link).channels.at(direction);
  }
  /// A locally administered address, as no vendor's device may have it.
  [[nodiscard]] static rte_ether_addr mac_of(NodeIndex node);

 private:
  struct Node {
    std::unique_ptr<Switch> fabric;  ///< null for a host
    std::unique_ptr<Nic> nic;
    PriorityMap priorities;  ///< of the NIC
    std::vector<LinkIndex> links;
  };
  struct Link {
    std::array<NodeIndex, 2> nodes;
    std::uint16_t mtu;
    std::array<std::unique_ptr<Channel>, 2> channels;
    bool in_tree = false;
  };

  [[nodiscard]] NodeIndex other_end(LinkIndex link, NodeIndex node) const {
    return links_[link].nodes[links_[link].nodes[0] == node ? 1 : 0];
  }
  [[nodiscard]] std::vector<std::uint32_t> hops_to(NodeIndex from) const;
  void find_tree();
  void attach(NodeIndex node);

  VirtualClock clock_;
  EventQueue events_;
  std::vector<Node> nodes_;
  std::vector<Link> links_;
};

}  // namespace rockhopper::stack::sim
