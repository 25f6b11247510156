// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/node/segment_gateway.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <netinet/in.h>
#include <rte_arp.h>
#include <rte_byteorder.h>
#include <rte_ip.h>

#include "apps/node/segment_management.h"
#include "stack/mbuf_read.h"
#include "stack/neighbour_discovery.h"
#include "stack/roce_locator.h"

namespace rockhopper {
namespace {

constexpr std::uint8_t kIcmpUnreachable = 3;
constexpr std::uint8_t kIcmpv6PacketTooBig = 2;

/// Whoever has asked is to hear of it, and so is who knows the station by another MAC address.
bool tells_of_a_neighbour(const rte_mbuf* packet) {
  const auto arp = stack::read_at<rte_arp_hdr>(packet, sizeof(rte_ether_hdr));
  return arp && (arp->arp_opcode == rte_cpu_to_be_16(RTE_ARP_OP_REPLY) ||
                 arp->arp_data.arp_sip == arp->arp_data.arp_tip);
}

/// The first byte behind an IP header without options says what an ICMP message is.
template <typename Header>
std::optional<std::uint8_t> icmp_type(const rte_mbuf* packet, std::uint8_t Header::*protocol,
                                      std::uint8_t wanted) {
  const auto ip = stack::read_at<Header>(packet, sizeof(rte_ether_hdr));
  if (!ip || (*ip).*protocol != wanted) return std::nullopt;
  return stack::read_at<std::uint8_t>(packet, sizeof(rte_ether_hdr) + sizeof(Header));
}

/// Whether all processes need what a frame that is no RoCEv2 says, each for itself.
bool is_for_all(const rte_mbuf* packet, rte_be16_t ether_type) {
  if (ether_type == rte_cpu_to_be_16(RTE_ETHER_TYPE_ARP)) return tells_of_a_neighbour(packet);
  if (ether_type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4)) {
    return icmp_type(packet, &rte_ipv4_hdr::next_proto_id, IPPROTO_ICMP) == kIcmpUnreachable;
  }
  if (ether_type != rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV6)) return false;
  const auto type = icmp_type(packet, &rte_ipv6_hdr::proto, IPPROTO_ICMPV6);
  return type && (*type == stack::kNeighbourAdvertisement || *type == kIcmpv6PacketTooBig);
}

/// One more owner of the packet.
void share(rte_mbuf* packet) {
  for (rte_mbuf* part = packet; part != nullptr; part = part->next) {
    rte_mbuf_refcnt_update(part, 1);
  }
}

}  // namespace

Expected<std::unique_ptr<SegmentGateway>> SegmentGateway::open(const SegmentGatewayConfig& config) {
  std::unique_ptr<SegmentGateway> gateway(new SegmentGateway);
  ROCKHOPPER_TRY(gateway->segment_, SegmentEnd::open({.directory = config.directory,
                                                      .mtu = config.mtu,
                                                      .pool = config.pool,
                                                      .find_receiver = &find_manager,
                                                      .way_out = stack::segment::WayOut::self,
                                                      .addresses = config.addresses}));
  stack::HostConfig host;
  host.mac = gateway->mac();
  host.mtu = config.mtu;
  host.packet_pool = config.pool;
  host.seed = config.seed;
  ROCKHOPPER_TRY(gateway->host_, stack::Host::create(host));
  for (const stack::InterfaceAddress& own : config.addresses) {
    ROCKHOPPER_TRY(gateway->host_->add_address(own.address, own.prefix_length));
  }
  return gateway;
}

std::uint16_t SegmentGateway::rx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) {
  std::uint16_t kept = host_->transmit(packets, count, now_ns);
  rte_mbuf** const fresh = packets + kept;
  const std::uint16_t came =
      segment_->link().rx_burst(fresh, static_cast<std::uint16_t>(count - kept), now_ns);
  for (std::uint16_t i = 0; i < came; ++i) {
    if (may_leave(fresh[i])) {
      packets[kept++] = fresh[i];
    } else {
      rte_pktmbuf_free(fresh[i]);
    }
  }
  return kept;
}

/// Whatever a process has put into its lane.
bool SegmentGateway::may_leave(const rte_mbuf* packet) {
  const rte_ether_addr own = mac();
  const auto header = stack::read_at<rte_ether_hdr>(packet, 0);
  if (!header || rte_is_same_ether_addr(&header->src_addr, &own) == 0) {
    counters_.out_foreign_source.add();
    return false;
  }
  if (rte_is_same_ether_addr(&header->dst_addr, &own) != 0) {
    counters_.out_own_destination.add();
    return false;
  }
  return true;
}

std::uint16_t SegmentGateway::tx_burst(rte_mbuf** packets, std::uint16_t count,
                                       std::uint64_t now_ns) {
  // Frames for processes go in as long rows as they come in, as each row wakes who sleeps.
  std::uint16_t row = 0;
  const auto pass_on = [&](std::uint16_t end) {
    if (end > row) {
      counters_.in_refused.add(
          segment_->pass_on(packets + row, static_cast<std::uint16_t>(end - row), now_ns));
    }
    row = static_cast<std::uint16_t>(end + 1);
  };
  for (std::uint16_t i = 0; i < count; ++i) {
    switch (receiver_of(packets[i])) {
      case Receiver::processes:
        break;
      case Receiver::all:
        counters_.in_for_all.add();
        share(packets[i]);
        host_->receive(packets + i, 1, now_ns);
        break;
      case Receiver::host:
        counters_.in_for_host.add();
        pass_on(i);
        host_->receive(packets + i, 1, now_ns);
        break;
      case Receiver::nobody:
        pass_on(i);
        rte_pktmbuf_free(packets[i]);
        break;
    }
  }
  pass_on(count);
  return count;
}

SegmentGateway::Receiver SegmentGateway::receiver_of(const rte_mbuf* packet) {
  const rte_ether_addr own = mac();
  const auto header = stack::read_at<rte_ether_hdr>(packet, 0);
  if (!header) {
    counters_.in_truncated.add();
    return Receiver::nobody;
  }
  if (rte_is_same_ether_addr(&header->src_addr, &own) != 0) {
    counters_.in_own_source.add();
    return Receiver::nobody;
  }
  if (rte_is_unicast_ether_addr(&header->dst_addr) != 0 &&
      rte_is_same_ether_addr(&header->dst_addr, &own) == 0) {
    counters_.in_not_ours.add();
    return Receiver::nobody;
  }
  if (stack::read_bth(packet)) return Receiver::processes;
  return is_for_all(packet, header->ether_type) ? Receiver::all : Receiver::host;
}

std::uint64_t SegmentGateway::next_deadline_ns() const {
  return std::min(segment_->link().next_deadline_ns(), host_->next_deadline_ns());
}

void SegmentGateway::visit_counters(stack::CounterVisitor visit, void* context) const {
  counters_.visit(visit, context);
  segment_->link().visit_counters(visit, context);
  std::pair target{visit, context};
  host_->visit_counters(
      [](void* to, const char* name, std::uint64_t value) {
        const auto& [visitor, its] = *static_cast<decltype(target)*>(to);
        visitor(its, fmt::format("host_{}", name).c_str(), value);
      },
      &target);
}

void SegmentGateway::describe_counters(stack::CounterTextVisitor visit, void* context) {
  SegmentGatewayCounters::describe(visit, context);
  stack::segment::SegmentLink::describe_counters(visit, context);
  std::pair target{visit, context};
  stack::Host::describe_counters(
      [](void* to, const char* name, const char* text) {
        const auto& [visitor, its] = *static_cast<decltype(target)*>(to);
        visitor(its, fmt::format("host_{}", name).c_str(), text);
      },
      &target);
}

}  // namespace rockhopper
