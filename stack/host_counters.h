// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "stack/counter.h"

namespace rockhopper::stack {

// clang-format off

/// Why the host did not use a received packet. The names serve as counters and as drop reasons.
#define ROCKHOPPER_HOST_DROPS(X)                                                                \
  X(ethernet_truncated)         /* shorter than an Ethernet (and VLAN) header */                \
  X(ethernet_bad_source)        /* a group address or zero */                                   \
  X(ethernet_own_source)        /* a packet of ours came back */                                \
  X(ethernet_not_ours)          /* for another station */                                       \
  X(ethernet_wrong_vlan)                                                                        \
  X(ethernet_unknown_type)                                                                      \
  X(arp_truncated)                                                                              \
  X(arp_unsupported)            /* not request or reply for IPv4 over Ethernet */               \
  X(arp_bad_sender)             /* its MAC is no station address */                             \
  X(arp_not_ours)               /* about addresses of others */                                 \
  X(ipv4_truncated)                                                                             \
  X(ipv4_bad_version)                                                                           \
  X(ipv4_bad_header_length)                                                                     \
  X(ipv4_bad_total_length)                                                                      \
  X(ipv4_bad_checksum)                                                                          \
  X(ipv4_options)               /* neither RoCEv2 nor echo needs any */                         \
  X(ipv4_fragment)                                                                              \
  X(ipv6_truncated)                                                                             \
  X(ipv6_bad_version)                                                                           \
  X(ipv6_bad_payload_length)                                                                    \
  X(ipv6_fragment)                                                                              \
  X(ipv6_extension_header)                                                                      \
  X(ipv6_mapped_address)        /* ::ffff:0:0/96 is for sockets, not for packets */             \
  X(ip_bad_source)              /* unspecified, multicast, broadcast or loopback */             \
  X(ip_own_source)              /* another station has our address as source */                 \
  X(ip_not_ours)                                                                                \
  X(ip_group_not_joined)        /* to a group that nobody here is a member of */                \
  X(ip_unknown_protocol)                                                                        \
  X(udp_truncated)                                                                              \
  X(udp_bad_length)                                                                             \
  X(udp_bad_checksum)                                                                           \
  X(udp_no_listener)                                                                            \
  X(icmp_truncated)                                                                             \
  X(icmp_bad_checksum)                                                                          \
  X(icmp_bad_code)                                                                              \
  X(icmp_group_echo)            /* every station of the group would answer */                   \
  X(icmp_unsupported)           /* a message that we have no use for */                         \
  X(icmp_rate_limited)                                                                          \
  X(icmp_bad_quote)             /* a router's complaint of no such datagram as we send */       \
  X(icmp_quote_not_ours)        /* ... of a datagram that we did not send */                    \
  X(icmp_bad_mtu)               /* ... of one that fits, or of a link that may not be */        \
  X(igmp_bad_length)                                                                            \
  X(igmp_bad_checksum)                                                                          \
  X(igmp_no_router_alert)       /* not from a router of this link */                            \
  X(igmp_bad_group)             /* asks about a unicast address */                              \
  X(igmp_bad_destination)       /* not where such a message goes */                             \
  X(igmp_unsupported)           /* a message that we have no use for */                         \
  X(mld_bad_hop_limit)          /* not 1: it may have crossed a router */                       \
  X(mld_no_router_alert)                                                                        \
  X(mld_bad_length)                                                                             \
  X(mld_bad_source)             /* not link-local */                                            \
  X(mld_bad_group)              /* asks about a unicast address */                              \
  X(mld_bad_destination)        /* not where such a message goes */                             \
  X(mld_unsupported)            /* a message that we have no use for */                         \
  X(nd_bad_hop_limit)           /* not 255: it crossed a router */                              \
  X(nd_bad_length)                                                                              \
  X(nd_bad_code)                                                                                \
  X(nd_bad_target)              /* no unicast address */                                        \
  X(nd_bad_option)                                                                              \
  X(nd_bad_source)              /* unspecified where it must not be */                          \
  X(nd_bad_destination)         /* multicast where it must not be, or the other way */          \
  X(nd_not_ours)                /* about addresses of others */                                 \
  X(duplicate_address)          /* another station claims an address of ours */

/// What else the host counts.
#define ROCKHOPPER_HOST_EVENTS(X)                                                              \
  X(rx_packets)                                                                                \
  X(rx_udp_datagrams)                                                                          \
  X(arp_requests_sent)                                                                         \
  X(arp_replies_sent)                                                                          \
  X(neighbour_solicitations_sent)                                                              \
  X(neighbour_advertisements_sent)                                                             \
  X(echo_replies_sent)                                                                         \
  X(membership_queries_received) /* by IGMP or MLD */                                          \
  X(membership_reports_sent)                                                                   \
  X(neighbours_resolved)        /* a MAC became known by our asking */                         \
  X(neighbours_failed)          /* no answer after all retries */                              \
  X(neighbour_mac_changes)                                                                     \
  X(address_probes_sent)        /* whether somebody else has a new address */                  \
  X(addresses_given_up)         /* a new address that another station has */                   \
  X(addresses_defended)         /* announced anew, as another station claims it */             \
  X(packets_too_big)            /* a router says so of datagrams of ours */                    \
  X(neighbours_evicted)         /* made room for another one */                                \
  X(neighbour_table_full)       /* refused: no entry could make room */                        \
  X(tx_no_buffer)               /* a packet of ours not sent: packet_pool empty or too small */\
  X(tx_queue_full)              /* a packet of ours not sent: transmit() not called enough */

// clang-format on

#define ROCKHOPPER_ENUMERATOR(name) name,
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

 private:
  std::array<Counter, static_cast<std::size_t>(HostDrop::none)> drops_;
  std::array<Counter, static_cast<std::size_t>(HostEvent::count)> events_;
};

/// The reason's name, of static storage duration.
[[nodiscard]] const char* to_string(HostDrop reason);

}  // namespace rockhopper::stack
