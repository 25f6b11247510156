// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/udp_link.h"

#include <utility>

#include "stack/udp_socket.h"

namespace rockhopper::stack {

UdpLink::UdpLink(std::uint16_t mtu, std::unique_ptr<UdpReceiver> receiver,
                 std::unique_ptr<UdpSender> sender)
    : mtu_(mtu), receiver_(std::move(receiver)), sender_(std::move(sender)) {}

Expected<std::unique_ptr<UdpLink>> UdpLink::open(const UdpLinkConfig& config) {
  if (config.addresses.empty()) {
    return fail(ErrorCode::invalid_argument, "a UDP link needs an own address");
  }
  ROCKHOPPER_TRY(auto receiver, UdpReceiver::open({.addresses = config.addresses,
                                                   .pool = config.pool,
                                                   .mtu = config.mtu,
                                                   .mac = kUdpOwnMac,
                                                   .identification = config.identification}));
  ROCKHOPPER_TRY(auto sender,
                 UdpSender::open(config.addresses, config.mtu, config.seed, config.identification));
  return std::unique_ptr<UdpLink>(new UdpLink(config.mtu, std::move(receiver), std::move(sender)));
}

std::uint16_t UdpLink::rx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t) {
  return receiver_->rx_burst(packets, count);
}

std::uint16_t UdpLink::tx_burst(rte_mbuf** packets, std::uint16_t count, std::uint64_t) {
  return sender_->tx_burst(packets, count);
}

rte_ether_addr UdpLink::mac() const { return kUdpOwnMac; }

void UdpLink::visit_counters(CounterVisitor visit, void* context) const {
  sent().visit(visit, context);
  received().visit(visit, context);
}

void UdpLink::describe_counters(CounterTextVisitor visit, void* context) {
  UdpSenderCounters::describe(visit, context);
  UdpReceiverCounters::describe(visit, context);
}

}  // namespace rockhopper::stack
