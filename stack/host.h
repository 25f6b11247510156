// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

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

#include "stack/address_table.h"
#include "stack/arp.h"
#include "stack/checksum.h"
#include "stack/error.h"
#include "stack/host_counters.h"
#include "stack/host_observer.h"
#include "stack/ip_address.h"
#include "stack/ip_header.h"
#include "stack/known_headers.h"
#include "stack/link.h"
#include "stack/multicast_membership.h"
#include "stack/neighbour_discovery.h"
#include "stack/neighbour_table.h"
#include "stack/output_queue.h"
#include "stack/priority_map.h"
#include "stack/protocol.h"
#include "stack/random.h"
#include "stack/timing_wheel.h"
#include "stack/token_bucket.h"
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
  std::uint64_t neighbour_generation = 0;  ///< of the neighbour table when it became ready
};

struct HostConfig {
  rte_ether_addr mac{};
  std::uint16_t mtu = 1500;
  std::optional<std::uint16_t>
      vlan_id{};  ///< 1 to 4094: all frames carry this tag, others are dropped
  /// The priority of a datagram's tag: Trust::pcp, that of its flow; Trust::dscp, by its DSCP.
  PriorityMap priorities{};
  /// Without a VLAN: datagrams carry a tag of VLAN id 0, for its priority (IEEE 802.1Q, 9.6).
  bool priority_tags = false;
  bool ipv4_checksum_offload = false;  ///< the link computes the IPv4 header checksum
  rte_mempool* packet_pool = nullptr;  ///< for ARP, neighbour discovery and echo; not owned
  /// Another host of the same addresses answers and announces: this one asks and learns only. For
  /// all but one of the lcores that serve one port.
  bool silent = false;
  std::uint64_t seed = 1;  ///< for jitter
  std::uint32_t neighbour_limit = 4096;
  DropObserver* drop_observer = nullptr;  ///< not owned; may be null
};

/// When a new address is used.
enum class AddressUse : std::uint8_t {
  at_once,
  /// When nobody else turns out to have it: after 4 to 7 seconds (RFC 5227), 1 to 2 for IPv6 (RFC
  /// 4862). After ten duplicates one address a minute is tried.
  after_probing,
};

/// An IP host without I/O: addresses, ARP, neighbour discovery, multicast groups, ICMP echo, UDP
/// demultiplexing. It is the protocol that a worker drives, and asks the clients of its UDP ports
/// for their packets. Single-threaded.
class Host final : public Protocol, private NeighbourSolicitor, private MembershipReporter {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<Host>> create(const HostConfig& config);
  ~Host() override;

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
  void set_observer(HostObserver* observer) { observer_ = observer; }
  /// Next hop for destinations outside every prefix; itself inside one.
  [[nodiscard]] Expected<void> set_gateway(const IpAddress& gateway);
  /// Neither learnt nor aged nor asked for.
  [[nodiscard]] Expected<void> add_static_neighbour(const IpAddress& address,
                                                    const rte_ether_addr& mac);
  [[nodiscard]] bool owns(const IpAddress& address) const { return addresses_.owns(address); }

  /// Datagrams to `group` are received from now on, and routers and switches told, by IGMP or MLD.
  /// Counted: it takes as many leave() to end it. `exhausted`: see MulticastMembership.
  [[nodiscard]] Expected<void> join(const IpAddress& group);
  [[nodiscard]] Expected<void> leave(const IpAddress& group);
  [[nodiscard]] bool is_member(const IpAddress& group) const {
    return membership(group).contains(group);
  }
  /// The group MACs of all frames that are of use here, neighbour discovery's and the routers'
  /// questions included: for Port::set_multicast_macs. Another generation: they may have changed.
  [[nodiscard]] std::vector<rte_ether_addr> group_macs() const;
  [[nodiscard]] std::uint64_t groups_generation() const { return groups_generation_; }

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
    if (flow.neighbour_generation == neighbours_.generation()) [[likely]]
      return Resolution::ready;
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

  /// Largest IP packet in bytes.
  [[nodiscard]] std::uint16_t mtu() const { return config_.mtu; }
  [[nodiscard]] const HostCounters& counters() const { return counters_; }
  /// Calls `visit(context, name, value)` for every counter, drops by reason included.
  void visit_counters(void (*visit)(void* context, const char* name, std::uint64_t value),
                      void* context) const {
    counters_.visit(visit, context);
  }
  /// Calls `visit(context, name, text)` for every counter: what it counts, in one line.
  static void describe_counters(void (*visit)(void* context, const char* name, const char* text),
                                void* context) {
    HostCounters::describe(visit, context);
  }

 private:
  struct Frame;
  struct UdpBinding {
    std::uint16_t port;
    UdpClient* client;
  };

  explicit Host(const HostConfig& config);

  // host_addresses.cc
  [[nodiscard]] Expected<void> add_one_address(const IpAddress& address,
                                               std::uint8_t prefix_length);
  void begin_use(const IpAddress& address, AddressUse use);
  void start_using(AddressTable::Entry& entry);
  void probe_due(std::uint64_t now_ns);
  void probe(AddressTable::Entry& entry, std::uint64_t now_ns);
  /// Whether it is an address that we would like to have: another station's claim ends that.
  [[nodiscard]] bool claimed_by_another(const IpAddress& address);
  /// Announces anew an address in use that another station claims.
  void defend(const IpAddress& address, std::uint64_t now_ns);
  void announce_due(std::uint64_t now_ns);

  // host.cc
  [[nodiscard]] Resolution resolve_anew(Flow& flow, std::uint64_t now_ns);
  [[nodiscard]] Resolution find_mac(const FlowConfig& flow, std::uint64_t now_ns,
                                    rte_ether_addr& mac);
  void build_header(Flow& flow, const rte_ether_addr& mac) const;
  [[nodiscard]] rte_mbuf* new_packet(std::uint16_t length);
  bool send(rte_mbuf* packet, const rte_ether_addr& destination, std::uint16_t ether_type);
  bool send_ip(rte_mbuf* payload, IpHeader header, const rte_ether_addr& destination);

  // host_receive.cc
  void receive_packet(rte_mbuf* packet, std::uint64_t now_ns);
  [[nodiscard]] HostDrop receive_ethernet(Frame& frame, std::uint64_t now_ns);
  [[nodiscard]] HostDrop check_stations(const Frame& frame) const;
  [[nodiscard]] HostDrop receive_ip(Frame& frame, std::uint64_t now_ns);
  [[nodiscard]] HostDrop check_addresses(const Frame& frame) const;
  [[nodiscard]] HostDrop receive_udp(Frame& frame, std::uint64_t now_ns);

  // host_icmp.cc
  [[nodiscard]] HostDrop receive_icmp(const Frame& frame, std::uint64_t now_ns);
  [[nodiscard]] HostDrop receive_icmpv6(const Frame& frame, std::uint64_t now_ns);
  [[nodiscard]] HostDrop receive_too_big(const Frame& frame, std::uint64_t now_ns);
  [[nodiscard]] HostDrop reply_to_echo(const Frame& frame, std::uint8_t reply_type,
                                       std::uint64_t now_ns);

  // host_groups.cc
  [[nodiscard]] const MulticastMembership& membership(const IpAddress& group) const {
    return group.is_ipv4() ? ipv4_groups_ : ipv6_groups_;
  }
  [[nodiscard]] MulticastMembership& membership(const IpAddress& group) {
    return group.is_ipv4() ? ipv4_groups_ : ipv6_groups_;
  }
  [[nodiscard]] bool takes_group(const IpHeader& ip) const;
  [[nodiscard]] HostDrop receive_igmp(const Frame& frame, std::uint64_t now_ns);
  [[nodiscard]] HostDrop receive_mld(const Frame& frame, std::uint64_t now_ns);
  void report(std::uint8_t version, std::span<const MembershipRecord> records) override;
  void send_report(std::uint8_t version, std::span<const MembershipRecord> records);

  // host_neighbours.cc
  [[nodiscard]] HostDrop receive_arp(const Frame& frame, std::uint64_t now_ns);
  [[nodiscard]] HostDrop receive_neighbour_message(const Frame& frame, std::uint64_t now_ns);
  void solicit(const IpAddress& target, const rte_ether_addr* probed) override;
  [[nodiscard]] bool send_probe(const IpAddress& address);
  void announce(const IpAddress& address);
  bool send_arp(const ArpMessage& message, const rte_ether_addr& destination);
  bool send_neighbour_message(const NeighbourMessage& message, const IpAddress& source,
                              const IpAddress& destination, const rte_ether_addr& mac);

  HostConfig config_;
  HostCounters counters_;
  std::uint64_t now_ns_ = 0;  ///< the last time seen
  TimingWheel timers_;
  AddressTable addresses_;
  NeighbourTable neighbours_;
  MulticastMembership ipv4_groups_;
  MulticastMembership ipv6_groups_;
  std::uint64_t groups_generation_ = 1;
  std::vector<UdpBinding> udp_bindings_;
  KnownHeaders known_headers_;  ///< to be forgotten when addresses or bindings change
  OutputQueue output_;
  Timer announce_timer_;
  Timer probe_timer_;
  Random probe_jitter_;
  std::uint8_t probe_conflicts_ = 0;   ///< new addresses that others had
  std::uint64_t next_attempt_ns_ = 0;  ///< after many of those: when the next one may be probed
  HostObserver* observer_ = nullptr;
  TokenBucket echo_replies_;
  TokenBucket too_big_;
};

inline void Host::encapsulate(const Flow& flow, rte_mbuf* packet,
                              std::uint32_t payload_length) const {
  assert(flow.header_length != 0 && packet->pkt_len == 0);
  assert(rte_pktmbuf_tailroom(packet) >= Flow::kHeaderMax);
  const auto udp_length = static_cast<std::uint16_t>(payload_length + sizeof(rte_udp_hdr));
  auto* header = rte_pktmbuf_mtod(packet, std::uint8_t*);
  // All of it, as a copy of known length is a few moves. The payload covers what is too much.
  std::memcpy(header, flow.header.data(), Flow::kHeaderMax);
  packet->data_len = flow.header_length;
  packet->pkt_len = flow.header_length;
  const auto store = [&](std::size_t offset, rte_be16_t value) {
    std::memcpy(header + offset, &value, sizeof value);
  };
  const std::size_t udp = flow.header_length - sizeof(rte_udp_hdr);
  store(udp + offsetof(rte_udp_hdr, dgram_len), rte_cpu_to_be_16(udp_length));
  if (udp - flow.l3_offset == sizeof(rte_ipv6_hdr)) {
    store(flow.l3_offset + offsetof(rte_ipv6_hdr, payload_len), rte_cpu_to_be_16(udp_length));
    return;
  }
  const rte_be16_t total_length =
      rte_cpu_to_be_16(static_cast<std::uint16_t>(udp_length + sizeof(rte_ipv4_hdr)));
  store(flow.l3_offset + offsetof(rte_ipv4_hdr, total_length), total_length);
  std::uint16_t checksum = 0;
  if (config_.ipv4_checksum_offload) {
    packet->tx_offload = rte_mbuf_tx_offload(flow.l3_offset, sizeof(rte_ipv4_hdr), 0, 0, 0, 0, 0);
    packet->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
  } else {
    // The header of a flow holds there the sum of the rest, not inverted.
    std::memcpy(&checksum, &flow.header[flow.l3_offset + offsetof(rte_ipv4_hdr, hdr_checksum)],
                sizeof checksum);
    checksum = static_cast<std::uint16_t>(~add_checksums(checksum, total_length));
  }
  store(flow.l3_offset + offsetof(rte_ipv4_hdr, hdr_checksum), checksum);
}

}  // namespace rockhopper::stack
