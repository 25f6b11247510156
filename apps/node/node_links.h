// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rte_ether.h>
#include <rte_mempool.h>

#include "apps/node/node_config.h"
#include "apps/node/personality/personality_link.h"
#include "apps/node/segment_end.h"
#include "roce/qpn_steering.h"
#include "stack/clock.h"
#include "stack/error.h"
#include "stack/fault_injector.h"
#include "stack/link.h"
#include "stack/mbuf_pool.h"
#include "stack/pcap_writer.h"
#include "stack/port.h"
#include "stack/shard_link.h"
#include "stack/switched_link.h"
#include "stack/telemetry.h"
#include "stack/tracer.h"
#include "stack/udp_link.h"

namespace rockhopper {

/// A group of counters: its name, how its counters are read, and what they count.
struct NamedCounters {
  std::string group;
  stack::CounterGroup::Visit visit;
  stack::CounterGroup::Describe describe;

  /// Those of anything with visit_counters() and describe_counters(), which has to outlive them.
  template <typename Owner>
  [[nodiscard]] static NamedCounters of(std::string group, const Owner& owner) {
    return {std::move(group),
            [&owner](stack::CounterVisitor visitor, void* context) {
              owner.visit_counters(visitor, context);
            },
            [](stack::CounterTextVisitor visitor, void* context) {
              Owner::describe_counters(visitor, context);
            }};
  }
};

/// What has crossed the way to the outside, since the node was opened.
struct Traffic {
  std::uint64_t tx_packets = 0;
  std::uint64_t rx_packets = 0;
  std::uint64_t tx_bytes = 0;
  std::uint64_t rx_bytes = 0;
};

/// What is between a node's shards and the outside: ports, the switch of several memif links, what
/// watches and impairs the link, and the rings on which shards hand packets over. Shard 0 of one:
///   PersonalityLink - FaultInjector - Tracer - PcapWriter - Port
/// so that a capture shows what is on the wire. With a switch, it shows what is between the switch
/// and the node.
class NodeLinks {
 public:
  /// What the node has for its links. None is owned.
  struct Place {
    const stack::Clock* clock = nullptr;
    std::uint64_t wall_offset_ns = 0;  ///< from the clock to the time since 1970, for captures
    rte_mempool* packet_pool = nullptr;
  };
  /// Waits for the server of a memif link, as the configuration says.
  [[nodiscard]] static Expected<std::unique_ptr<NodeLinks>> open(const NodeConfig& config,
                                                                 const Place& place);
  NodeLinks(const NodeLinks&) = delete;
  NodeLinks& operator=(const NodeLinks&) = delete;
  ~NodeLinks();

  /// The outermost link of that shard. Requires that there are links.
  [[nodiscard]] stack::Link& link(std::uint16_t shard) const { return *links_.at(shard); }
  /// False: the node's packets are moved by its caller.
  [[nodiscard]] bool any() const { return !links_.empty(); }

  /// What messages call the way to the outside: the first port's name, "segment" or "udp"; of links
  /// from outside nothing.
  [[nodiscard]] std::string name() const;
  /// Links from outside are always up, and so are a segment and UDP.
  [[nodiscard]] bool up() const;
  /// Makes the ports receive frames to these groups alone, where they can.
  void receive_groups(std::span<const rte_ether_addr> macs);
  void receive_all_groups();
  [[nodiscard]] bool ipv4_checksum_offload() const;
  [[nodiscard]] bool omits_icrc() const;
  /// The first port's, in bits/s; 0: not known.
  [[nodiscard]] std::uint64_t line_rate() const;
  /// The capture, which notes the reasons of drops; null without one.
  [[nodiscard]] stack::PcapWriter* capture() const { return pcap_.get(); }
  /// What a host at UDP sockets has to know; nothing elsewhere.
  [[nodiscard]] std::optional<stack::KernelSocket> socket_end() const;
  /// What needs to know the engine of its packets; null without one.
  [[nodiscard]] PersonalityLink* personality() const { return personality_.get(); }
  /// What the engine has to ask for the numbers of its queue pairs; null: nothing.
  [[nodiscard]] roce::QpnAllocator* qpns() const { return segment_.get(); }
  /// Empty with links from outside, with a segment and with UDP.
  [[nodiscard]] std::span<const std::unique_ptr<stack::Port>> ports() const { return ports_; }
  [[nodiscard]] const stack::ShardLink& shard_link(std::uint16_t shard) const {
    return *shard_links_.at(shard);
  }
  [[nodiscard]] std::vector<NamedCounters> counters() const;
  /// What the ports' first queues count, the segment or UDP. Any thread.
  [[nodiscard]] Traffic traffic() const;

 private:
  NodeLinks() = default;
  [[nodiscard]] Expected<void> open_ports(const NodeConfig& config, const stack::Clock& clock);
  [[nodiscard]] Expected<void> open_memif(const NodeConfig& config, const MemifPort& port,
                                          const stack::Clock& clock);
  [[nodiscard]] Expected<void> open_one_memif(const NodeConfig& config, const MemifPort& port,
                                              const stack::Clock& clock);
  [[nodiscard]] Expected<void> open_device(const NodeConfig& config, const DevicePort& port);
  [[nodiscard]] Expected<void> open_segment(const NodeConfig& config, const SegmentPort& port);
  [[nodiscard]] Expected<void> open_udp(const NodeConfig& config);
  [[nodiscard]] Expected<void> make_pool_for_arrivals(const NodeConfig& config);
  [[nodiscard]] Expected<void> take_links(const NodeConfig& config, const LinkPort& port);
  void use_queues_of(stack::Port& port);
  [[nodiscard]] Expected<void> steer(std::uint16_t shards);
  [[nodiscard]] Expected<void> wrap(const NodeConfig& config, const Place& place);

  // In order of construction; destroyed from the end on.
  stack::MbufPool own_pool_;  ///< of several ports, as packets of one are in others' rings; of a
                              ///< segment or UDP, for what arrives
  std::vector<std::unique_ptr<stack::Port>> ports_;
  std::unique_ptr<stack::SwitchedLink> switch_;  ///< of several ports
  std::unique_ptr<SegmentEnd> segment_;
  std::unique_ptr<stack::UdpLink> udp_;
  std::unique_ptr<stack::ShardRings> rings_;  ///< of several shards, as the next two
  std::unique_ptr<roce::QpnSteering> steering_;
  std::vector<std::unique_ptr<stack::ShardLink>> shard_links_;
  std::unique_ptr<stack::PcapWriter> pcap_;
  std::unique_ptr<stack::Tracer> tracer_;
  std::unique_ptr<stack::FaultInjector> faults_;
  std::unique_ptr<PersonalityLink> personality_;
  std::vector<stack::Link*> links_;  ///< by shard: the outermost of them
};

}  // namespace rockhopper
