// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "stack/counter.h"

namespace rockhopper::stack {

/// Why the host did not use a received packet. The names serve as counters and as drop reasons.
#define ROCKHOPPER_HOST_DROPS(X)                                                                  \
  X(ethernet_truncated, "shorter than an Ethernet header, or than one with its VLAN tag")         \
  X(ethernet_bad_source, "the source MAC is a group address or zero")                             \
  X(ethernet_own_source, "a frame of this host came back")                                        \
  X(ethernet_not_ours, "a frame for another station")                                             \
  X(ethernet_wrong_vlan, "a frame with another VLAN id, or with one where there is to be none")   \
  X(roce_v1, "a frame of RoCE version 1 (EtherType 0x8915); version 2 is served")                 \
  X(ethernet_unknown_type, "an EtherType other than IPv4, IPv6 and ARP")                          \
  X(arp_truncated, "shorter than an ARP message")                                                 \
  X(arp_unsupported, "neither request nor reply for IPv4 over Ethernet")                          \
  X(arp_bad_sender, "the sender's MAC is no station address")                                     \
  X(arp_not_ours, "about addresses of other stations")                                            \
  X(ipv4_truncated, "shorter than an IPv4 header")                                                \
  X(ipv4_bad_version, "the version is not 4")                                                     \
  X(ipv4_bad_header_length, "the header length is below 20 bytes")                                \
  X(ipv4_bad_total_length, "the total length is shorter than the header or beyond the frame")     \
  X(ipv4_bad_checksum, "the header checksum is wrong")                                            \
  X(ipv4_options, "IPv4 options other than the router alert of IGMP")                             \
  X(ipv4_fragment, "a fragment: there is no reassembly")                                          \
  X(ipv6_truncated, "shorter than an IPv6 header")                                                \
  X(ipv6_bad_version, "the version is not 6")                                                     \
  X(ipv6_bad_payload_length, "the payload length is beyond the frame")                            \
  X(ipv6_fragment, "a fragment: there is no reassembly")                                          \
  X(ipv6_extension_header, "an extension header other than the router alert of MLD")              \
  X(ipv6_mapped_address, "an address of ::ffff:0:0/96, which is for sockets and not for packets") \
  X(ip_bad_source, "the source is unspecified, multicast, broadcast or loopback")                 \
  X(ip_own_source, "another station uses an address of this host as source")                      \
  X(ip_not_ours, "for an address that this host does not have, or unicast in a frame to a group") \
  X(ip_group_not_joined, "to a group that nobody here is a member of")                            \
  X(ip_unknown_protocol, "neither UDP, ICMP, ICMPv6 nor IGMP")                                    \
  X(udp_truncated, "shorter than a UDP header")                                                   \
  X(udp_bad_length, "the UDP length does not fit the packet")                                     \
  X(udp_bad_checksum, "the UDP checksum is wrong")                                                \
  X(udp_no_listener, "for a UDP port that nothing is bound to")                                   \
  X(icmp_truncated, "shorter than the ICMP message")                                              \
  X(icmp_bad_checksum, "the ICMP checksum is wrong")                                              \
  X(icmp_bad_code, "an echo request whose code is not 0")                                         \
  X(icmp_group_echo, "an echo request to a group: every station of it would answer")              \
  X(icmp_unsupported, "an ICMP message that the host has no use for")                             \
  X(icmp_rate_limited, "echo requests not answered, as there have been too many")                 \
  X(icmp_bad_quote, "a router's complaint about no such datagram as this host sends")             \
  X(icmp_quote_not_ours, "a router's complaint about a datagram that this host cannot have sent") \
  X(icmp_bad_mtu, "a router's complaint about one that fits, or for an MTU that may not be")      \
  X(igmp_bad_length, "the length is not that of an IGMP message")                                 \
  X(igmp_bad_checksum, "the IGMP checksum is wrong")                                              \
  X(igmp_no_router_alert, "without router alert: not from a router of this link")                 \
  X(igmp_bad_group, "asks about a unicast address")                                               \
  X(igmp_bad_destination, "not where such a message goes")                                        \
  X(igmp_unsupported, "an IGMP message that the host has no use for")                             \
  X(mld_bad_hop_limit, "the hop limit is not 1: it may have crossed a router")                    \
  X(mld_no_router_alert, "without router alert: not from a router of this link")                  \
  X(mld_bad_length, "the length is not that of an MLD message")                                   \
  X(mld_bad_source, "the source is not link-local")                                               \
  X(mld_bad_group, "asks about a unicast address")                                                \
  X(mld_bad_destination, "not where such a message goes")                                         \
  X(mld_unsupported, "an MLD message that the host has no use for")                               \
  X(nd_bad_hop_limit, "the hop limit is not 255: it has crossed a router")                        \
  X(nd_bad_length, "the length is not that of a neighbour message")                               \
  X(nd_bad_code, "the code is not 0")                                                             \
  X(nd_bad_target, "the target is no unicast address")                                            \
  X(nd_bad_option, "an option without length, beyond the message, or where none may be")          \
  X(nd_bad_source, "the source is unspecified where it must not be")                              \
  X(nd_bad_destination, "a destination that such a message may not have")                         \
  X(nd_not_ours, "about addresses of other stations")                                             \
  X(duplicate_address, "another station claims an address of this host")

/// What else the host counts.
#define ROCKHOPPER_HOST_EVENTS(X)                                                                 \
  X(rx_packets, "packets received, dropped ones included")                                        \
  X(rx_udp_datagrams, "UDP datagrams handed to what is bound to their port")                      \
  X(arp_requests_sent, "ARP requests sent")                                                       \
  X(arp_replies_sent, "ARP replies sent")                                                         \
  X(neighbour_solicitations_sent, "neighbour solicitations sent")                                 \
  X(neighbour_advertisements_sent, "neighbour advertisements sent")                               \
  X(echo_replies_sent, "ICMP echo replies sent")                                                  \
  X(membership_queries_received, "IGMP and MLD queries received")                                 \
  X(membership_reports_sent, "IGMP and MLD reports sent")                                         \
  X(neighbours_resolved, "times that a MAC became known by asking for it")                        \
  X(neighbours_failed, "times that no neighbour answered after all retries")                      \
  X(neighbour_mac_changes, "times that a known neighbour got another MAC")                        \
  X(address_probes_sent, "questions whether another station has a new address")                   \
  X(addresses_given_up, "new addresses that another station has")                                 \
  X(addresses_defended, "times that an address was announced anew, as another station claims it") \
  X(packets_too_big, "times that a router said so of datagrams of this host")                     \
  X(neighbours_evicted, "neighbours forgotten to make room for another one")                      \
  X(neighbour_table_full, "neighbours refused, as no entry could make room")                      \
  X(tx_no_buffer,                                                                                 \
    "packets of the host not sent: the packet pool was empty, or its buffers too small")          \
  X(tx_queue_full, "packets of the host not sent: too many wait to be taken")

#define ROCKHOPPER_ENUMERATOR(name, text) name,
enum class HostDrop : std::uint8_t { ROCKHOPPER_HOST_DROPS(ROCKHOPPER_ENUMERATOR) none };
enum class HostEvent : std::uint8_t { ROCKHOPPER_HOST_EVENTS(ROCKHOPPER_ENUMERATOR) count };
#undef ROCKHOPPER_ENUMERATOR

/// Every counter of a host.
class HostCounters {
 public:
  void add(HostDrop reason) { drops_[static_cast<std::size_t>(reason)].add(); }
  void add(HostEvent event, std::uint64_t n = 1) {
    events_[static_cast<std::size_t>(event)].add(n);
  }
  [[nodiscard]] std::uint64_t value(HostDrop reason) const {
    return drops_[static_cast<std::size_t>(reason)].value();
  }
  [[nodiscard]] std::uint64_t value(HostEvent event) const {
    return events_[static_cast<std::size_t>(event)].value();
  }
  /// Calls `visitor(context, name, value)` for each.
  void visit(void (*visitor)(void* context, const char* name, std::uint64_t value),
             void* context) const;
  /// Calls `visitor(context, name, text)` for each: what it counts, in one line.
  static void describe(void (*visitor)(void* context, const char* name, const char* text),
                       void* context);

 private:
  std::array<Counter, static_cast<std::size_t>(HostDrop::none)> drops_;
  std::array<Counter, static_cast<std::size_t>(HostEvent::count)> events_;
};

/// The reason's name, of static storage duration.
[[nodiscard]] const char* to_string(HostDrop reason);

}  // namespace rockhopper::stack
