// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <rte_byteorder.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_udp.h>

#include "stack/address_conflict_detection.h"
#include "stack/address_table.h"
#include "stack/checksum.h"
#include "stack/error.h"
#include "stack/host_config.h"
#include "stack/host_context.h"
#include "stack/host_counters.h"
#include "stack/host_frame.h"
#include "stack/host_observer.h"
#include "stack/icmp_receiver.h"
#include "stack/ip_address.h"
#include "stack/multicast_groups.h"
#include "stack/neighbour_receiver.h"
#include "stack/neighbour_sender.h"
#include "stack/neighbour_table.h"
#include "stack/protocol.h"
#include "stack/udp_client.h"

namespace rockhopper::stack {

/// Where and how a flow's packets go. Addresses are both IPv4 or both IPv6.
struct FlowConfig {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;  ///< IPv6 only, 20 bits
  std::uint8_t priority = 0;     ///< service level: the tag's priority where the port trusts that
  bool priority_tag = true;      ///< it has the tag of HostConfig::priority_tags
};

/// The finished Ethernet/VLAN/IP/UDP header of one flow, ready to be put before a payload.
/// A plain value owned by its user; Host::resolve fills and refreshes it. After a change of
/// `config`, neighbour_generation must be set to 0.
struct Flow {
  static constexpr std::size_t kHeaderMax = kDatagramHeadersMax;
  FlowConfig config;
  std::array<std::uint8_t, kHeaderMax> header{};
  std::uint8_t header_length = 0;  ///< bytes of `header` in use; 0 before resolve() said ready
  std::uint8_t l3_offset = 0;
  bool omits_icrc = false;  ///< see HostConfig
  /// What the flow's user has computed of `header`; 0 since resolve() has made that.
  std::uint32_t computed = 0;
  std::uint64_t neighbour_generation = 0;  ///< of the neighbour table when it became ready
};

/// Puts the headers of a flow into packets. What they have in common is a value here, which a burst
/// makes once. The flow has to be ready, and to stay as it is while this lives.
class Encapsulation {
 public:
  Encapsulation(const Flow& flow, bool ipv4_checksum_offload);

  [[nodiscard]] std::uint8_t header_length() const { return header_length_; }
  [[nodiscard]] bool is_ipv6() const { return ipv6_; }
  /// As Host::encapsulate(), but for the lengths of the mbuf, which are the caller's.
  [[gnu::always_inline]] void put(rte_mbuf* packet, std::uint32_t payload_length) const;

  // The two halves of put(), for packets in a row whose payloads have one length.

  /// Writes the headers, as they are in front of so many bytes of payload, and what is behind them
  /// up to Flow::kHeaderMax bytes.
  [[gnu::always_inline]] void write(std::uint8_t* header, std::uint32_t payload_length) const;
  /// Asks the port for the IPv4 checksum if it computes that.
  [[gnu::always_inline]] void request_checksum(rte_mbuf* packet) const;

 private:
  const std::uint8_t* header_;
  std::uint8_t header_length_;
  std::uint8_t l3_offset_;
  bool ipv6_;
  bool offload_;  ///< the port computes the checksum of the IPv4 header
  std::uint16_t checksum_ = 0;
};

/// An IP host without I/O: addresses, ARP, neighbour discovery, multicast groups, ICMP echo, UDP
/// demultiplexing. It is the protocol that a worker drives, and asks the clients of its UDP ports
/// for their packets. Single-threaded.
///
/// This class takes packets and hands them to its parts, each of a class of its own, which act on
/// what they have in common; and it makes flows of addresses.
class Host final : public Protocol {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<Host>> create(const HostConfig& config);
  ~Host() override = default;

  /// Announces the address to the link once it is used, and joins its solicited-node group. The
  /// first IPv6 address brings the link-local one of the MAC with it. A silent host does not probe:
  /// give it the address when the other host has begun to use it. An address that turned out to be
  /// a duplicate stays, unused, until it is removed; to try again, add it anew. `exhausted` beyond
  /// AddressTable::kLimit addresses.
  [[nodiscard]] Expected<void> add_address(const IpAddress& address, std::uint8_t prefix_length,
                                           AddressUse use = AddressUse::at_once);
  /// Flows from it are unreachable from now on, what comes for it is dropped.
  [[nodiscard]] Expected<void> remove_address(const IpAddress& address);
  /// Returns nothing if it is not there.
  [[nodiscard]] std::optional<AddressState> address_state(const IpAddress& address) const;
  /// The address with that index, lowest free ones are given out first; nothing where there is
  /// none in use.
  [[nodiscard]] std::optional<IpAddress> address_at(std::uint16_t index) const;
  /// Not owned; null for none.
  void set_observer(HostObserver* observer) { context_.observer = observer; }
  /// Next hop for destinations outside every prefix; itself inside one.
  [[nodiscard]] Expected<void> set_gateway(const IpAddress& gateway);
  /// Neither learnt nor aged nor asked for.
  [[nodiscard]] Expected<void> add_static_neighbour(const IpAddress& address,
                                                    const rte_ether_addr& mac);
  [[nodiscard]] bool owns(const IpAddress& address) const {
    return context_.addresses.owns(address);
  }

  /// Datagrams to `group` are received from now on, and routers and switches told, by IGMP or MLD.
  /// Counted: it takes as many leave() to end it. `exhausted`: see MulticastMembership.
  [[nodiscard]] Expected<void> join(const IpAddress& group) { return groups_.join(group); }
  [[nodiscard]] Expected<void> leave(const IpAddress& group) { return groups_.leave(group); }
  [[nodiscard]] bool is_member(const IpAddress& group) const { return groups_.is_member(group); }
  /// The group MACs of all frames that are of use here, neighbour discovery's and the routers'
  /// questions included: for Port::set_multicast_macs. Another generation: they may have changed.
  [[nodiscard]] std::vector<rte_ether_addr> group_macs() const { return groups_.macs(); }
  [[nodiscard]] std::uint64_t groups_generation() const { return groups_.generation(); }

  /// From now on `client` has the port. It is not owned, and must outlive the host or be unbound
  /// with nullptr. Not from within the host's calls to a client.
  void bind_udp(std::uint16_t port, UdpClient* client);

  /// Takes ownership of the packets; clients are called inside this call.
  void receive(rte_mbuf** packets, std::uint16_t count, std::uint64_t now_ns) override;
  /// The host's own packets that are due now (ARP, neighbour discovery, ICMP), then those of its
  /// clients in the order in which they were bound.
  [[nodiscard]] std::uint16_t transmit(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) override;
  /// May lie in the past: then transmit() has packets.
  [[nodiscard]] std::uint64_t next_deadline_ns() const override;

  /// Makes `flow` ready if the next hop's MAC is known, else starts to look for it. Cheap when the
  /// flow is ready and the neighbour table unchanged: call it before each use. `unreachable` after
  /// the retries failed; a later call starts anew once the hold-down has passed. Also unreachable:
  /// a source that is not ours, a destination outside every prefix if there is no gateway. A
  /// destination of our own is ready and has our MAC: hand such packets to receive().
  [[nodiscard]] Resolution resolve(Flow& flow, std::uint64_t now_ns) {
    if (flow.neighbour_generation == neighbours_.generation()) [[likely]] {
      return Resolution::ready;
    }
    return resolve_anew(flow, now_ns);
  }

  /// Makes `flow` good for one answer, to the station that has sent the frame: nothing is looked
  /// up, asked for or remembered, so that a peer that makes up sources gains nothing. Returns false
  /// if the flow's source is not ours. Requires addresses of one family.
  [[nodiscard]] bool resolve_back(Flow& flow, const rte_ether_addr& station) const;

  /// Writes the headers of a datagram with `payload_length` bytes into `packet`, which is empty;
  /// the payload goes behind them. Requires a ready flow, and room for Flow::kHeaderMax bytes. Sets
  /// mbuf offload fields where offloads are on.
  void encapsulate(const Flow& flow, rte_mbuf* packet, std::uint32_t payload_length) const;
  /// The same for many packets of a flow, which has to be ready.
  [[nodiscard]] Encapsulation encapsulation(const Flow& flow) const;

  /// Largest IP packet in bytes.
  [[nodiscard]] std::uint16_t mtu() const { return context_.config.mtu; }
  [[nodiscard]] const HostCounters& counters() const { return context_.counters; }
  /// Calls `visit(context, name, value)` for every counter, drops by reason included.
  void visit_counters(void (*visit)(void* context, const char* name, std::uint64_t value),
                      void* context) const {
    context_.counters.visit(visit, context);
  }
  /// Calls `visit(context, name, text)` for every counter: what it counts, in one line.
  static void describe_counters(void (*visit)(void* context, const char* name, const char* text),
                                void* context) {
    HostCounters::describe(visit, context);
  }

 private:
  explicit Host(const HostConfig& config);
  [[nodiscard]] Expected<void> add_one_address(const IpAddress& address,
                                               std::uint8_t prefix_length);
  [[nodiscard]] Resolution resolve_anew(Flow& flow, std::uint64_t now_ns);
  [[nodiscard]] Resolution find_mac(const FlowConfig& flow, std::uint64_t now_ns,
                                    rte_ether_addr& mac);
  void build_header(Flow& flow, const rte_ether_addr& mac) const;

  void receive_packet(rte_mbuf* packet, std::uint64_t now_ns);
  [[nodiscard]] HostDrop receive_ethernet(HostFrame& frame, std::uint64_t now_ns);
  [[nodiscard]] HostDrop check_stations(const HostFrame& frame) const;
  [[nodiscard]] HostDrop receive_ip(HostFrame& frame, std::uint64_t now_ns);
  [[nodiscard]] HostDrop check_addresses(const HostFrame& frame) const;
  [[nodiscard]] HostDrop receive_udp(HostFrame& frame, std::uint64_t now_ns);

  HostContext context_;
  NeighbourSender neighbour_sender_;
  NeighbourTable neighbours_;
  AddressConflictDetection conflicts_;
  NeighbourReceiver neighbour_receiver_;
  MulticastGroups groups_;
  IcmpReceiver icmp_;
  std::uint64_t now_ns_ = 0;  ///< the last time seen
};

inline Encapsulation Host::encapsulation(const Flow& flow) const {
  return {flow, context_.config.ipv4_checksum_offload};
}

inline void Host::encapsulate(const Flow& flow, rte_mbuf* packet,
                              std::uint32_t payload_length) const {
  assert(packet->pkt_len == 0);
  packet->data_len = flow.header_length;
  packet->pkt_len = flow.header_length;
  encapsulation(flow).put(packet, payload_length);
}

inline Encapsulation::Encapsulation(const Flow& flow, bool ipv4_checksum_offload)
    : header_(flow.header.data()),
      header_length_(flow.header_length),
      l3_offset_(flow.l3_offset),
      ipv6_(flow.header_length - sizeof(rte_udp_hdr) - flow.l3_offset == sizeof(rte_ipv6_hdr)),
      offload_(!ipv6_ && ipv4_checksum_offload) {
  assert(header_length_ != 0);
  if (ipv6_) return;
  // The header of a flow holds there the sum of the rest, not inverted.
  std::memcpy(&checksum_, header_ + l3_offset_ + offsetof(rte_ipv4_hdr, hdr_checksum),
              sizeof checksum_);
}

inline void Encapsulation::put(rte_mbuf* packet, std::uint32_t payload_length) const {
  assert(packet->buf_len - packet->data_off >= static_cast<int>(Flow::kHeaderMax));
  write(rte_pktmbuf_mtod(packet, std::uint8_t*), payload_length);
  request_checksum(packet);
}

inline void Encapsulation::request_checksum(rte_mbuf* packet) const {
  if (!offload_) return;
  packet->tx_offload = rte_mbuf_tx_offload(l3_offset_, sizeof(rte_ipv4_hdr), 0, 0, 0, 0, 0);
  packet->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
}

inline void Encapsulation::write(std::uint8_t* header, std::uint32_t payload_length) const {
  const auto udp_length = static_cast<std::uint16_t>(payload_length + sizeof(rte_udp_hdr));
  // All of it, as a copy of known length is a few moves. The payload covers what is too much.
  constexpr std::size_t kBlock = 16;
  for (std::size_t at = 0; at < Flow::kHeaderMax; at += kBlock) {
    const std::size_t from = std::min(at, Flow::kHeaderMax - kBlock);
    std::memcpy(header + from, header_ + from, kBlock);
  }
  const auto store = [header](std::size_t offset, rte_be16_t value) {
    std::memcpy(header + offset, &value, sizeof value);
  };
  store(header_length_ - sizeof(rte_udp_hdr) + offsetof(rte_udp_hdr, dgram_len),
        rte_cpu_to_be_16(udp_length));
  if (ipv6_) {
    store(l3_offset_ + offsetof(rte_ipv6_hdr, payload_len), rte_cpu_to_be_16(udp_length));
    return;
  }
  const rte_be16_t total_length =
      rte_cpu_to_be_16(static_cast<std::uint16_t>(udp_length + sizeof(rte_ipv4_hdr)));
  store(l3_offset_ + offsetof(rte_ipv4_hdr, total_length), total_length);
  const auto checksum = offload_
                            ? std::uint16_t{0}
                            : static_cast<std::uint16_t>(~add_checksums(checksum_, total_length));
  store(l3_offset_ + offsetof(rte_ipv4_hdr, hdr_checksum), checksum);
}

}  // namespace rockhopper::stack
