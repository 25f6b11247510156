// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/net/forwarder.h"

#include <array>
#include <cassert>
#include <utility>

namespace rockhopper::stack::net {

Forwarder::Forwarder(LearningSwitch& learning_switch, std::vector<ForwarderPort> ports)
    : switch_(learning_switch), ports_(std::move(ports)) {
  assert(ports_.size() <= switch_.port_count());
}

bool Forwarder::turn(std::uint64_t now_ns) {
  if (now_ns >= next_link_check_ns_) check_links(now_ns);
  bool moved = false;
  for (PortNumber port = 0; port < port_count(); ++port) {
    if (receive(port, now_ns)) moved = true;
  }
  return transmit(now_ns) || moved;
}

bool Forwarder::transmit(std::uint64_t now_ns) {
  bool moved = false;
  for (PortNumber port = 0; port < port_count(); ++port) {
    if (transmit(port, now_ns)) moved = true;
  }
  return moved;
}

void Forwarder::check_links(std::uint64_t now_ns) {
  next_link_check_ns_ = now_ns + kLinkCheckNs;
  for (PortNumber port = 0; port < port_count(); ++port) {
    switch_.set_link(port, ports_[port].link_up());
  }
}

bool Forwarder::receive(PortNumber port, std::uint64_t now_ns) {
  // Ports that are down are polled as well: a FaultInjector has delayed packets to move.
  std::array<rte_mbuf*, kBurst> packets;
  const std::uint16_t count = ports_[port].link->rx_burst(packets.data(), kBurst, now_ns);
  if (count == 0) return false;
  switch_.receive(port, packets.data(), count, now_ns);
  return true;
}

bool Forwarder::transmit(PortNumber port, std::uint64_t now_ns) {
  bool moved = false;
  std::array<rte_mbuf*, kBurst> packets;
  for (;;) {
    const std::uint16_t offered = switch_.output(port, packets.data(), kBurst, now_ns);
    if (offered == 0) return moved;
    const std::uint16_t taken = ports_[port].link->tx_burst(packets.data(), offered, now_ns);
    switch_.sent(port, taken, now_ns);
    moved = moved || taken > 0;
    if (taken < offered) return moved;
  }
}

}  // namespace rockhopper::stack::net
