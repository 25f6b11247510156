// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/switched_link.h"

#include <algorithm>
#include <cassert>

namespace rockhopper::stack {

SwitchedLink::SwitchedLink(const Config& config)
    : pool_(config.pool),
      switch_(
          {.ports = static_cast<net::PortNumber>(config.ports.size() + 1), .seed = config.seed}),
      forwarder_(switch_, config.ports) {
  assert(!config.ports.empty() && config.ports.size() < net::kPortsMax);
  switch_.set_link(own_port(), true);
}

std::uint16_t SwitchedLink::rx_burst(rte_mbuf** packets, std::uint16_t count,
                                     std::uint64_t now_ns) {
  forwarder_.turn(now_ns);
  const std::uint16_t taken = switch_.output(own_port(), packets, count, now_ns);
  switch_.sent(own_port(), taken, now_ns);
  std::uint16_t kept = 0;
  for (std::uint16_t i = 0; i < taken; ++i) {
    rte_mbuf* packet = packets[i];
    // Others have it too, and the receiver may change what it gets.
    if (rte_mbuf_refcnt_read(packet) > 1) {
      rte_mbuf* copy = rte_pktmbuf_copy(packet, pool_, 0, UINT32_MAX);
      rte_pktmbuf_free(packet);
      if (copy == nullptr) {
        no_mbuf_.add();
        continue;
      }
      packet = copy;
    }
    packets[kept++] = packet;
  }
  return kept;
}

std::uint16_t SwitchedLink::tx_burst(rte_mbuf** packets, std::uint16_t count,
                                     std::uint64_t now_ns) {
  switch_.receive(own_port(), packets, count, now_ns);
  forwarder_.transmit(now_ns);
  return count;
}

std::uint64_t SwitchedLink::next_deadline_ns() const {
  std::uint64_t next_ns = kNever;
  for (const net::ForwarderPort& port : forwarder_.ports()) {
    next_ns = std::min(next_ns, port.link->next_deadline_ns());
  }
  return next_ns;
}

rte_ether_addr SwitchedLink::mac() const { return forwarder_.ports().front().link->mac(); }

std::uint16_t SwitchedLink::mtu() const {
  std::uint16_t smallest = UINT16_MAX;
  for (const net::ForwarderPort& port : forwarder_.ports()) {
    smallest = std::min(smallest, port.link->mtu());
  }
  return smallest;
}

bool SwitchedLink::any_up() const {
  return std::any_of(forwarder_.ports().begin(), forwarder_.ports().end(),
                     [](const net::ForwarderPort& port) { return port.link_up(); });
}

void SwitchedLink::visit_counters(CounterVisitor visit, void* context) const {
  switch_.visit_mac_counters(visit, context);
  visit(context, "no_mbuf", no_mbuf_.value());
}

void SwitchedLink::describe_counters(CounterTextVisitor visit, void* context) {
  net::LearningSwitch::describe_mac_counters(visit, context);
  visit(context, "no_mbuf", "packets lost, as there was no buffer for a copy");
}

}  // namespace rockhopper::stack
