// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Multicast groups: which packets are taken, and IGMP and MLD around MulticastMembership.
#include <algorithm>
#include <array>

#include <netinet/in.h>

#include "stack/ethernet.h"
#include "stack/host.h"
#include "stack/host_frame.h"
#include "stack/igmp.h"
#include "stack/mld.h"

namespace rockhopper::stack {
namespace {

constexpr std::uint8_t kReportHopLimit = 1;
constexpr std::uint8_t kInternetworkControl = 0xc0;  // RFC 3376, section 4
/// Queries list sources; those of longer ones are of no use to us, and such are not read.
constexpr std::uint16_t kMessageMax = 1500;
constexpr std::size_t kReportMax =
    kMldHeaderSize + MulticastMembership::kRecordsMax * kMldRecordSize;
static_assert(kReportMax >= kIgmpHeaderSize + MulticastMembership::kRecordsMax * kIgmpRecordSize);

}  // namespace

Expected<void> Host::join(const IpAddress& group) {
  known_headers_.forget();
  ++groups_generation_;
  return membership(group).join(group);
}

Expected<void> Host::leave(const IpAddress& group) {
  known_headers_.forget();
  ++groups_generation_;
  return membership(group).leave(group);
}

std::vector<rte_ether_addr> Host::group_macs() const {
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
bool Host::takes_group(const IpHeader& ip) const {
  const IpAddress& group = ip.destination;
  const bool solicited_node = addresses_.in_solicited_node_group(group);
  if (group == kAllNodesGroup || solicited_node) return ip.protocol == IPPROTO_ICMPV6;
  if (group == kAllSystemsGroup && ip.protocol == IPPROTO_IGMP) return true;
  return is_member(group);
}

HostDrop Host::receive_igmp(const Frame& frame, std::uint64_t now_ns) {
  const std::uint16_t length = frame.ip.payload_length;
  if (length > kMessageMax) return HostDrop::igmp_bad_length;
  if (raw_checksum(frame.packet, frame.l4_offset(), length) != 0xffff)
    return HostDrop::igmp_bad_checksum;
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
  counters_.add(HostEvent::membership_queries_received);
  ipv4_groups_.on_query(message.query, now_ns);
  return HostDrop::none;
}

HostDrop Host::receive_mld(const Frame& frame, std::uint64_t now_ns) {
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
  counters_.add(HostEvent::membership_queries_received);
  ipv6_groups_.on_query(message.query, now_ns);
  return HostDrop::none;
}

/// In as many packets as the buffers ask for.
void Host::report(std::uint8_t version, std::span<const MembershipRecord> records) {
  const std::size_t room =
      rte_pktmbuf_data_room_size(config_.packet_pool) - std::size_t{RTE_PKTMBUF_HEADROOM};
  const std::size_t fit = (room - kMldHeaderSize) / kMldRecordSize;
  while (!records.empty()) {
    const auto some = records.first(std::min(records.size(), fit));
    send_report(version, some);
    records = records.subspan(some.size());
  }
}

void Host::send_report(std::uint8_t version, std::span<const MembershipRecord> records) {
  const bool ipv4 = records.front().group.is_ipv4();
  std::array<std::uint8_t, kReportMax> bytes;
  const auto length = static_cast<std::uint16_t>(ipv4 ? emit_igmp(version, records, bytes)
                                                      : emit_mld(version, records, bytes));
  IpHeader ip;
  ip.router_alert = true;
  ip.hop_limit = kReportHopLimit;
  if (ipv4) {
    // Without an address it comes from 0.0.0.0 (RFC 3376, section 4.2.13).
    ip.source = addresses_.source_for(records.front().group).value_or(IpAddress::from_ipv4(0));
    ip.destination = igmp_destination(version, records.front());
    ip.protocol = IPPROTO_IGMP;
    ip.traffic_class = kInternetworkControl;
  } else {
    // RFC 3810, section 5.2.13: from the link-local address or none.
    const IpAddress link_local = link_local_address(config_.mac);
    if (owns(link_local)) ip.source = link_local;
    ip.destination = mld_destination(version, records.front());
    ip.protocol = IPPROTO_ICMPV6;
    auto sum =
        add_checksums(rte_raw_cksum(bytes.data(), length),
                      pseudo_header_checksum(ip.source, ip.destination, ip.protocol, length));
    sum = static_cast<std::uint16_t>(~sum);
    std::memcpy(&bytes[kIcmpChecksumOffset], &sum, sizeof sum);
  }
  rte_mbuf* packet = new_packet(length);
  if (packet == nullptr) return;
  std::memcpy(rte_pktmbuf_mtod(packet, void*), bytes.data(), length);
  if (send_ip(packet, ip, multicast_mac(ip.destination)))
    counters_.add(HostEvent::membership_reports_sent);
}

}  // namespace rockhopper::stack
