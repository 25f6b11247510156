// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/icmp_receiver.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <netinet/in.h>
#include <rte_icmp.h>
#include <rte_ip.h>

#include "stack/checksum.h"
#include "stack/dpdk_compat.h"
#include "stack/mld.h"
#include "stack/neighbour_discovery.h"
#include "stack/packet_too_big.h"

namespace rockhopper::stack {
namespace {

/// ICMP and ICMPv6 messages begin with type, code and checksum alike.
constexpr std::size_t kIcmpStartSize = 4;
constexpr std::size_t kEchoHeaderSize = sizeof(rte_icmp_hdr);
constexpr std::uint8_t kDscpMask = RTE_IPV4_HDR_DSCP_MASK;
// DPDK does not define them: RFC 792; RFC 4443, section 3.2.
constexpr std::uint8_t kIcmpUnreachable = 3;
constexpr std::uint8_t kIcmpFragmentationNeeded = 4;
constexpr std::uint8_t kIcmpv6PacketTooBig = 2;

constexpr std::uint64_t kEchoReplyIntervalNs = 1'000'000;
constexpr std::uint64_t kEchoReplyBurst = 64;
constexpr std::uint64_t kTooBigIntervalNs = 1'000'000'000;  // anybody can cause events

struct IcmpStart {
  std::uint8_t type;
  std::uint8_t code;
};

/// Reads the start of the message, which is at least kIcmpStartSize long.
IcmpStart read_start(const rte_mbuf* packet, std::uint32_t offset) {
  std::uint8_t copy[sizeof(IcmpStart)];
  const auto* bytes =
      static_cast<const std::uint8_t*>(rte_pktmbuf_read(packet, offset, sizeof copy, copy));
  return {bytes[0], bytes[1]};
}

}  // namespace

IcmpReceiver::IcmpReceiver(HostContext& host, NeighbourReceiver& neighbours,
                           MulticastGroups& groups)
    : host_(host),
      neighbours_(neighbours),
      groups_(groups),
      echo_replies_(kEchoReplyIntervalNs, kEchoReplyBurst),
      too_big_(kTooBigIntervalNs, 1) {}

HostDrop IcmpReceiver::receive_icmp(const HostFrame& frame, std::uint64_t now_ns) {
  const std::uint16_t length = frame.ip.payload_length;
  if (length < kIcmpStartSize) return HostDrop::icmp_truncated;
  if (raw_checksum(frame.packet, frame.l4_offset(), length) != 0xffff) {
    return HostDrop::icmp_bad_checksum;
  }
  const IcmpStart start = read_start(frame.packet, frame.l4_offset());
  if (start.type == kIcmpUnreachable && start.code == kIcmpFragmentationNeeded) {
    return receive_too_big(frame, now_ns);
  }
  if (start.type != kIcmpEchoRequest) return HostDrop::icmp_unsupported;
  if (start.code != 0) return HostDrop::icmp_bad_code;
  // RFC 1122, section 3.2.2.6, leaves it to us.
  if (frame.ip.destination.is_multicast()) return HostDrop::icmp_group_echo;
  return reply_to_echo(frame, kIcmpEchoReply, now_ns);
}

HostDrop IcmpReceiver::receive_icmpv6(const HostFrame& frame, std::uint64_t now_ns) {
  const IpHeader& ip = frame.ip;
  const std::uint16_t length = ip.payload_length;
  if (length < kIcmpStartSize) return HostDrop::icmp_truncated;
  const std::uint16_t sum =
      add_checksums(pseudo_header_checksum(ip.source, ip.destination, ip.protocol, length),
                    raw_checksum(frame.packet, frame.l4_offset(), length));
  if (sum != 0xffff) return HostDrop::icmp_bad_checksum;
  const IcmpStart start = read_start(frame.packet, frame.l4_offset());
  if (!ip.router_alert &&
      (start.type == kNeighbourSolicitation || start.type == kNeighbourAdvertisement)) {
    return neighbours_.receive_message(frame, now_ns);
  }
  if (is_mld(start.type)) return groups_.receive_mld(frame, now_ns);
  if (ip.router_alert) return HostDrop::ipv6_extension_header;
  // Only a solicitation may come from nowhere.
  if (ip.source.is_unspecified()) return HostDrop::ip_bad_source;
  if (start.type == kIcmpv6PacketTooBig) return receive_too_big(frame, now_ns);
  if (start.type != kIcmpv6EchoRequest) return HostDrop::icmp_unsupported;
  if (start.code != 0) return HostDrop::icmp_bad_code;
  if (ip.destination.is_multicast()) return HostDrop::icmp_group_echo;
  return reply_to_echo(frame, kIcmpv6EchoReply, now_ns);
}

/// Datagrams are never fragmented, so the user of the path has to know. Nothing is changed: that it
/// quotes one that we may have sent is all that is known of the station that says so.
HostDrop IcmpReceiver::receive_too_big(const HostFrame& frame, std::uint64_t now_ns) {
  std::array<std::uint8_t, kPacketTooBigMax> copy;
  const std::uint32_t length =
      std::min<std::uint32_t>(frame.ip.payload_length, static_cast<std::uint32_t>(copy.size()));
  const auto* bytes = static_cast<const std::uint8_t*>(
      rte_pktmbuf_read(frame.packet, frame.l4_offset(), length, copy.data()));
  PacketTooBig message;
  const HostDrop reason = parse_packet_too_big({bytes, length}, frame.ip.source.is_ipv4(), message);
  if (reason != HostDrop::none) return reason;
  const bool bound = host_.bindings.find(message.destination_port) != nullptr;
  if (!host_.addresses.owns(message.source) || message.source != frame.ip.destination || !bound ||
      message.length > host_.config.mtu) {
    return HostDrop::icmp_quote_not_ours;
  }
  host_.counters.add(HostEvent::packets_too_big);
  if (host_.observer != nullptr && too_big_.take(now_ns)) {
    host_.observer->on_packet_too_big(message.destination, message.mtu);
  }
  return HostDrop::none;
}

/// Sends the message back with another type. The copy is of our own pool, so that the request may
/// be shared, chained, or have lost its VLAN tag to the NIC.
HostDrop IcmpReceiver::reply_to_echo(const HostFrame& frame, std::uint8_t reply_type,
                                     std::uint64_t now_ns) {
  if (frame.ip.payload_length < kEchoHeaderSize) return HostDrop::icmp_truncated;
  if (host_.config.silent) return HostDrop::none;
  if (!echo_replies_.take(now_ns)) return HostDrop::icmp_rate_limited;
  rte_mbuf* reply = rte_pktmbuf_copy(frame.packet, host_.config.packet_pool, frame.l4_offset(),
                                     frame.ip.payload_length);
  if (reply == nullptr) {
    host_.counters.add(HostEvent::tx_no_buffer);
    return HostDrop::none;
  }
  reply->ol_flags = 0;
  reply->tx_offload = 0;
  reply->vlan_tci = 0;
  // create() made sure that a first segment has room for more than that.
  auto* message = rte_pktmbuf_mtod(reply, std::uint8_t*);
  message[0] = reply_type;
  message[kIcmpChecksumOffset] = 0;
  message[kIcmpChecksumOffset + 1] = 0;
  IpHeader ip;
  ip.source = frame.ip.destination;
  ip.destination = frame.ip.source;
  ip.protocol = frame.ip.protocol;
  ip.traffic_class = frame.ip.traffic_class & kDscpMask;
  std::uint16_t sum = raw_checksum(reply, 0, frame.ip.payload_length);
  if (!ip.source.is_ipv4()) {
    sum = add_checksums(sum, pseudo_header_checksum(ip.source, ip.destination, ip.protocol,
                                                    frame.ip.payload_length));
  }
  sum = static_cast<std::uint16_t>(~sum);
  std::memcpy(&message[kIcmpChecksumOffset], &sum, sizeof sum);
  if (host_.sender.send_ip(reply, ip, frame.ethernet.source)) {
    host_.counters.add(HostEvent::echo_replies_sent);
  }
  return HostDrop::none;
}

}  // namespace rockhopper::stack
