// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <rte_ether.h>
#include <rte_mempool.h>

#include "stack/counter.h"
#include "stack/priority_map.h"
#include "stack/sim/channel.h"
#include "stack/sim/event_queue.h"

namespace rockhopper::stack::sim {

/// When a switch asks a neighbour to pause a priority: when more than `xoff_bytes` wait that came
/// from there, until no more than `xon_bytes` do. What the neighbour still sends must find room in
/// the output queues, which are to be long enough: nothing else keeps them from dropping.
struct PfcThresholds {
  std::uint64_t xoff_bytes = 0;
  std::uint64_t xon_bytes = 0;
};

struct SwitchConfig {
  std::optional<PfcThresholds> pfc{};
  PriorityMap priorities{};  ///< of all ports
  /// For pause frames and copies of what goes to a group; not owned. Required with `pfc`.
  rte_mempool* pool = nullptr;
  std::uint64_t seed = 1;  ///< of the choice among paths
};

struct SwitchCounters {
  Counter forwarded;
  Counter flooded;
  Counter dropped_queue_full;
  Counter dropped_same_port;  ///< the destination is where the packet came from
  Counter dropped_no_route;   ///< the destination is unknown, and so is where it may be
  Counter dropped_no_mbuf;    ///< copies of flooded packets
  Counter pfc_sent;           ///< pauses begun, prolonged or ended
  Counter pfc_received;
  Counter pfc_no_mbuf;  ///< pause frames not sent
};

/// A switch that knows the network: it sends each packet to the next hop on one of the shortest
/// paths to the station with the packet's destination address. Which one is a matter of addresses
/// and ports, so that a flow's packets stay in order. Packets for groups go along a tree.
class Switch final : private Event {
 public:
  Switch(EventQueue& events, const SwitchConfig& config, const rte_ether_addr& mac);
  ~Switch() override;

  using PortIndex = std::uint16_t;

  /// Channels are not owned. `in_tree`: groups are reached here.
  PortIndex add_port(Channel& incoming, Channel& outgoing, bool in_tree);
  /// Sets the ports on shortest paths to the station whose MAC ends in `station`; none if it is
  /// unknown.
  void set_route(std::uint16_t station, std::vector<PortIndex> ports);

  [[nodiscard]] const SwitchCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t port_count() const { return ports_.size(); }

 private:
  struct Port;

  void run(std::uint64_t now_ns) override;
  void receive(Port& port, std::uint64_t now_ns);
  void forward(Port& ingress, rte_mbuf* packet, std::uint64_t now_ns);
  void flood(const Port& ingress, rte_mbuf* packet, std::uint64_t now_ns);
  void enqueue(Port& egress, rte_mbuf* packet, std::uint64_t now_ns);
  void departed(const rte_mbuf* packet, std::uint64_t now_ns);
  [[nodiscard]] PortIndex choose(const std::vector<PortIndex>& ports, const rte_mbuf* packet) const;
  void send_pause(Port& port, std::uint8_t priority, std::uint16_t quanta, std::uint64_t now_ns);

  EventQueue& events_;
  SwitchConfig config_;
  rte_ether_addr mac_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<std::vector<PortIndex>> routes_;  ///< by station
  SwitchCounters counters_;
};

}  // namespace rockhopper::stack::sim
