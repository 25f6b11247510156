// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <rte_mbuf.h>

#include "stack/counter.h"
#include "stack/link.h"
#include "stack/net/mac_table.h"
#include "stack/net/output_port.h"
#include "stack/priority_map.h"
#include "stack/telemetry.h"

namespace rockhopper::stack::net {

inline constexpr PortNumber kPortsMax = 32;

struct LearningSwitchConfig {
  PortNumber ports = 2;  ///< at most kPortsMax
  std::size_t mac_table_size = 4096;
  std::uint64_t mac_ageing_ns = 300'000'000'000;  ///< IEEE 802.1Q's recommended 300 s
  /// Rate, queue and ECN marking of each port. More entries than ports are not used; ports without
  /// one have the last, or the defaults.
  std::vector<OutputPortConfig> outputs{};
  /// Priorities of packets that come in at each port; the same holds for missing entries.
  std::vector<PriorityMap> priorities{};
  std::uint64_t seed = 1;  ///< of the address table's hash
};

/// What happened to the packets of one port. None goes without a trace:
///
///     rx_packets  = rx_forwarded + rx_flooded + all rx_dropped_*
///     tx_enqueued = tx_packets + tx_dropped_link_down + those that wait
struct SwitchPortCounters {
  Counter rx_packets;
  Counter rx_bytes;
  Counter rx_forwarded;           ///< to the one port where the destination was heard
  Counter rx_flooded;             ///< to all others: group address, or nobody knows it
  Counter rx_dropped_runt;        ///< shorter than an Ethernet header
  Counter rx_dropped_source;      ///< source address is a group's, or zero
  Counter rx_dropped_moved;       ///< source is the fixed station of another port
  Counter rx_dropped_link_local;  ///< 01-80-C2-00-00-0x: for the neighbour only
  Counter rx_dropped_same_port;   ///< the destination was heard on the same port
  Counter rx_dropped_no_port;     ///< to be flooded, but no other port is up
  Counter tx_enqueued;
  Counter tx_packets;  ///< taken by the link
  Counter tx_bytes;
  Counter tx_dropped_queue_full;  ///< not enqueued
  Counter tx_dropped_link_down;   ///< waited when the link went down
};

struct MacTableCounters {
  Counter added;
  Counter moved;  ///< heard on another port than before
  Counter aged;
  Counter flushed;  ///< forgotten as their port went down
  Counter full;     ///< not learned for want of room
};

/// A learning Ethernet switch without I/O: packets that arrive at a port are put into the output
/// queues of the ports they are for, and wait there to be taken. Frames are not changed, whatever
/// VLAN tags they have. A packet for several ports is one set of mbufs with a reference for each,
/// so their takers may read them and must not write (FaultInjector and Port copy what they change).
/// Single-threaded; counters may be read by any thread.
class LearningSwitch {
 public:
  explicit LearningSwitch(const LearningSwitchConfig& config);

  /// Takes ownership of packets that arrived at port `ingress`.
  void receive(PortNumber ingress, rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns);

  /// Up to `count` packets that are to leave a port now, in order. They stay the switch's.
  [[nodiscard]] std::uint16_t output(PortNumber egress, rte_mbuf** packets, std::uint16_t count,
                                     std::uint64_t now_ns) const;
  /// The first `count` packets of output() at the same time have been taken over.
  void sent(PortNumber egress, std::uint16_t count, std::uint64_t now_ns);

  /// A port that is down gets no packets; what waits for it is dropped, and the stations behind it
  /// are forgotten. All ports are down at first; a packet that arrives shows that its port is up.
  void set_link(PortNumber port, bool up);
  [[nodiscard]] bool link_up(PortNumber port) const { return ports_[port]->up; }

  /// The station is on that port for good, also when it says nothing: who uses its address
  /// elsewhere gets nothing of what is for it. To be said before packets come.
  void fix_station(const rte_ether_addr& address, PortNumber port) {
    fixed_.push_back({address, port});
  }

  /// Is told of packets that arrived at the port and were dropped. Not owned; may be nullptr.
  void set_drop_observer(PortNumber port, DropObserver* observer);

  [[nodiscard]] PortNumber port_count() const { return static_cast<PortNumber>(ports_.size()); }
  [[nodiscard]] const SwitchPortCounters& counters(PortNumber port) const {
    return ports_[port]->counters;
  }
  [[nodiscard]] const MacTableCounters& mac_counters() const { return mac_counters_; }
  [[nodiscard]] const MacTable& mac_table() const { return macs_; }
  void visit_port_counters(PortNumber port, CounterVisitor visit, void* context) const;
  void visit_mac_counters(CounterVisitor visit, void* context) const;
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_port_counters(CounterTextVisitor visit, void* context);
  static void describe_mac_counters(CounterTextVisitor visit, void* context);

 private:
  struct Port {
    Port(const OutputPortConfig& config, const PriorityMap& map) : queue(config), priorities(map) {}
    OutputPort queue;
    PriorityMap priorities;
    bool up = false;
    DropObserver* observer = nullptr;
    SwitchPortCounters counters;
  };

  void receive_one(PortNumber ingress, rte_mbuf* packet, std::uint64_t now_ns);
  struct FixedStation {
    rte_ether_addr address;
    PortNumber port;
  };

  void learn(const rte_ether_addr& source, PortNumber port, std::uint64_t now_ns);
  [[nodiscard]] std::optional<PortNumber> fixed_port_of(const rte_ether_addr& station) const;
  void flood(PortNumber ingress, rte_mbuf* packet);
  using DropCounter = Counter SwitchPortCounters::*;
  /// Counts, tells and frees.
  static void drop(Port& port, rte_mbuf* packet, DropCounter reason);

  std::vector<std::unique_ptr<Port>> ports_;
  MacTable macs_;
  std::vector<FixedStation> fixed_;  ///< few
  MacTableCounters mac_counters_;
};

}  // namespace rockhopper::stack::net
