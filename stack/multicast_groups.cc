// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/multicast_groups.h"

#include <algorithm>
#include <array>

#include <netinet/in.h>

#include "stack/checksum.h"
#include "stack/ethernet.h"
#include "stack/igmp.h"
#include "stack/mld.h"
#include "stack/neighbour_discovery.h"

namespace rockhopper::stack {
namespace {

constexpr std::uint8_t kReportHopLimit = 1;
constexpr std::uint8_t kInternetworkControl = 0xc0;  // RFC 3376, section 4
/// Queries list sources; those of longer ones are of no use to us, and such are not read.
constexpr std::uint16_t kMessageMax = 1500;
constexpr std::size_t kReportMax =
    kMldHeaderSize + MulticastMembership::kRecordsMax * kMldRecordSize;
static_assert(kReportMax >= kIgmpHeaderSize + MulticastMembership::kRecordsMax * kIgmpRecordSize);

/// So that what is random in one part says nothing of the others.
constexpr std::uint64_t kIpv4Stream = 0x4d04;
constexpr std::uint64_t kIpv6Stream = 0x4d06;

}  // namespace

MulticastGroups::MulticastGroups(HostContext& host)
    : host_(host),
      ipv4_groups_(host.config.seed ^ kIpv4Stream, host.timers, *this),
      ipv6_groups_(host.config.seed ^ kIpv6Stream, host.timers, *this) {}

Expected<void> MulticastGroups::join(const IpAddress& group) { return change(group).join(group); }

Expected<void> MulticastGroups::leave(const IpAddress& group) { return change(group).leave(group); }

MulticastMembership& MulticastGroups::change(const IpAddress& group) {
  host_.known_headers.forget();
  ++generation_;
  return group.is_ipv4() ? ipv4_groups_ : ipv6_groups_;
}

std::vector<rte_ether_addr> MulticastGroups::macs() const {
  std::vector<rte_ether_addr> macs{multicast_mac(kAllSystemsGroup), multicast_mac(kAllNodesGroup)};
  for (const MulticastMembership* groups : {&ipv4_groups_, &ipv6_groups_}) {
    for (const IpAddress& group : groups->groups()) {
      const rte_ether_addr mac = multicast_mac(group);
      // Several groups may have one MAC.
      const bool known = std::any_of(macs.begin(), macs.end(), [&](const rte_ether_addr& other) {
        return rte_is_same_ether_addr(&mac, &other) != 0;
      });
      if (!known) macs.push_back(mac);
    }
  }
  return macs;
}

/// The groups of the host's own protocols are theirs alone.
bool MulticastGroups::takes(const IpHeader& ip) const {
  const IpAddress& group = ip.destination;
  const bool solicited_node = host_.addresses.in_solicited_node_group(group);
  if (group == kAllNodesGroup || solicited_node) return ip.protocol == IPPROTO_ICMPV6;
  if (group == kAllSystemsGroup && ip.protocol == IPPROTO_IGMP) return true;
  return is_member(group);
}

HostDrop MulticastGroups::receive_igmp(const HostFrame& frame, std::uint64_t now_ns) {
  const std::uint16_t length = frame.ip.payload_length;
  if (length > kMessageMax) return HostDrop::igmp_bad_length;
  if (raw_checksum(frame.packet, frame.l4_offset(), length) != 0xffff) {
    return HostDrop::igmp_bad_checksum;
  }
  std::uint8_t copy[kMessageMax];
  const auto* bytes = static_cast<const std::uint8_t*>(
      rte_pktmbuf_read(frame.packet, frame.l4_offset(), length, copy));
  IgmpMessage message;
  const HostDrop reason =
      parse_igmp({bytes, length}, frame.ip.destination, frame.ip.router_alert, message);
  if (reason != HostDrop::none) return reason;
  if (!message.is_query) {
    ipv4_groups_.on_report(message.group, now_ns);
    return HostDrop::none;
  }
  host_.counters.add(HostEvent::membership_queries_received);
  ipv4_groups_.on_query(message.query, now_ns);
  return HostDrop::none;
}

HostDrop MulticastGroups::receive_mld(const HostFrame& frame, std::uint64_t now_ns) {
  const IpHeader& ip = frame.ip;
  if (ip.payload_length > kMessageMax) return HostDrop::mld_bad_length;
  std::uint8_t copy[kMessageMax];
  const auto* bytes = static_cast<const std::uint8_t*>(
      rte_pktmbuf_read(frame.packet, frame.l4_offset(), ip.payload_length, copy));
  MldMessage message;
  const HostDrop reason = parse_mld({bytes, ip.payload_length}, ip.source, ip.destination,
                                    ip.hop_limit, ip.router_alert, message);
  if (reason != HostDrop::none) return reason;
  if (!message.is_query) {
    ipv6_groups_.on_report(message.group, now_ns);
    return HostDrop::none;
  }
  host_.counters.add(HostEvent::membership_queries_received);
  ipv6_groups_.on_query(message.query, now_ns);
  return HostDrop::none;
}

/// In as many packets as the buffers ask for.
void MulticastGroups::report(std::uint8_t version, std::span<const MembershipRecord> records) {
  const std::size_t room =
      rte_pktmbuf_data_room_size(host_.config.packet_pool) - std::size_t{RTE_PKTMBUF_HEADROOM};
  const std::size_t fit = (room - kMldHeaderSize) / kMldRecordSize;
  while (!records.empty()) {
    const auto some = records.first(std::min(records.size(), fit));
    send_report(version, some);
    records = records.subspan(some.size());
  }
}

void MulticastGroups::send_report(std::uint8_t version, std::span<const MembershipRecord> records) {
  const bool ipv4 = records.front().group.is_ipv4();
  std::array<std::uint8_t, kReportMax> bytes;
  const std::size_t length =
      ipv4 ? emit_igmp(version, records, bytes) : emit_mld(version, records, bytes);
  IpHeader ip;
  ip.router_alert = true;
  ip.hop_limit = kReportHopLimit;
  if (ipv4) {
    // Without an address it comes from 0.0.0.0 (RFC 3376, section 4.2.13).
    ip.source = host_.addresses.source_for(records.front().group).value_or(IpAddress::from_ipv4(0));
    ip.destination = igmp_destination(version, records.front());
    ip.protocol = IPPROTO_IGMP;
    ip.traffic_class = kInternetworkControl;
  } else {
    // RFC 3810, section 5.2.13: from the link-local address or none.
    const IpAddress link_local = link_local_address(host_.config.mac);
    if (host_.addresses.owns(link_local)) ip.source = link_local;
    ip.destination = mld_destination(version, records.front());
    ip.protocol = IPPROTO_ICMPV6;
  }
  if (host_.sender.send_message(std::span(bytes).first(length), ip,
                                multicast_mac(ip.destination))) {
    host_.counters.add(HostEvent::membership_reports_sent);
  }
}

}  // namespace rockhopper::stack
