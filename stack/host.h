// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <rte_ether.h>
#include <rte_mbuf.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "stack/counter.h"
#include "stack/error.h"
#include "stack/ip_address.h"
#include "stack/link.h"

namespace rockhopper::stack {

/// A received UDP datagram whose Ethernet, VLAN, IP and UDP headers have been checked and which is
/// addressed to this host. The mbuf may be a chain. Ownership of `packet` goes with the datagram.
struct UdpDatagram {
  rte_mbuf* packet;
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port;
  std::uint16_t destination_port;
  std::uint16_t l3_offset;       ///< of the IP header from the start of the frame
  std::uint16_t payload_offset;  ///< of the first byte after the UDP header
  std::uint16_t payload_length;  ///< by the UDP length; the frame may be longer (Ethernet padding)
  std::uint8_t traffic_class;    ///< DSCP and ECN as in the IP header
  std::uint8_t hop_limit;
};

/// Receives the datagrams of one UDP port. Must take ownership of datagram.packet.
class UdpHandler {
 public:
  UdpHandler() = default;
  UdpHandler(const UdpHandler&) = delete;
  UdpHandler& operator=(const UdpHandler&) = delete;
  virtual ~UdpHandler() = default;
  virtual void on_udp(const UdpDatagram& datagram, std::uint64_t now_ns) = 0;
};

/// Where and how a flow's packets go. Addresses are both IPv4 or both IPv6.
struct FlowConfig {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;  ///< IPv6 only, 20 bits
  std::uint8_t priority = 0;     ///< 802.1p PCP, used when the host has a VLAN
};

enum class Resolution { ready, pending, unreachable };

/// The finished Ethernet/VLAN/IP/UDP header of one flow, ready to be put before a payload.
/// A plain value owned by its user; Host::resolve fills and refreshes it.
struct Flow {
  static constexpr std::size_t kHeaderMax = 14 + 4 + 40 + 8;
  FlowConfig config;
  std::array<std::uint8_t, kHeaderMax> header{};
  std::uint8_t header_length = 0;  ///< bytes of `header` in use; 0 before resolve() said ready
  std::uint8_t l3_offset = 0;
  std::uint64_t neighbour_generation = 0;  ///< of the neighbour table when last resolved
};

struct HostConfig {
  rte_ether_addr mac{};
  std::uint16_t mtu = 1500;
  std::optional<std::uint16_t> vlan_id;     ///< 1 to 4094: all frames carry this tag, others are dropped
  bool ipv4_checksum_offload = false;       ///< the link computes the IPv4 header checksum
  rte_mempool* packet_pool = nullptr;       ///< for ARP, neighbour discovery and echo; not owned
  std::uint64_t seed = 1;                   ///< for jitter
  std::uint32_t neighbour_limit = 4096;
  DropObserver* drop_observer = nullptr;    ///< not owned; may be null
};

/// An IP host without I/O: addresses, ARP, neighbour discovery, ICMP echo, UDP demultiplexing.
/// Single-threaded.
class Host {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<Host>> create(const HostConfig& config);
  virtual ~Host() = default;

  [[nodiscard]] virtual Expected<void> add_address(const IpAddress& address,
                                                   std::uint8_t prefix_length) = 0;
  [[nodiscard]] virtual Expected<void> remove_address(const IpAddress& address) = 0;
  /// Next hop for destinations outside every prefix.
  [[nodiscard]] virtual Expected<void> set_gateway(const IpAddress& gateway) = 0;
  [[nodiscard]] virtual Expected<void> add_static_neighbour(const IpAddress& address,
                                                            const rte_ether_addr& mac) = 0;
  [[nodiscard]] virtual bool owns(const IpAddress& address) const = 0;

  /// `handler` is not owned and must outlive the host or be unbound with nullptr.
  virtual void bind_udp(std::uint16_t port, UdpHandler* handler) = 0;

  /// Takes ownership of the packets; handlers run inside this call.
  virtual void receive(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) = 0;
  /// ARP, neighbour discovery and ICMP packets due now; ownership passes to the caller.
  [[nodiscard]] virtual std::uint16_t transmit(rte_mbuf** packets, std::uint16_t count,
                                               std::uint64_t now_ns) = 0;
  [[nodiscard]] virtual std::uint64_t next_deadline_ns() const = 0;

  /// Makes `flow` ready if the next hop's MAC is known, else starts to look for it. Cheap when the
  /// flow is ready and the neighbour table unchanged: call it before each use. `unreachable` after
  /// the retries failed; a later call starts anew once the hold-down has passed.
  [[nodiscard]] virtual Resolution resolve(Flow& flow, std::uint64_t now_ns) = 0;

  /// Prepends the flow's headers to `packet`, whose data is the whole UDP payload, except that
  /// `trailer` bytes will still be appended behind it: lengths count them. Requires a ready flow,
  /// and headroom of header_length. Sets mbuf offload fields where offloads are on.
  virtual void encapsulate(const Flow& flow, rte_mbuf* packet, std::uint16_t trailer) const = 0;

  /// Calls `visit(context, name, value)` for every counter, drops by reason included.
  virtual void visit_counters(void (*visit)(void* context, const char* name, std::uint64_t value),
                              void* context) const = 0;
};

}  // namespace rockhopper::stack
