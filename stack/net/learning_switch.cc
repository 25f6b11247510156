// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/net/learning_switch.h"

#include <algorithm>
#include <array>
#include <cassert>

#include <rte_ether.h>

namespace rockhopper::stack::net {
namespace {

using PortCounter = Counter SwitchPortCounters::*;

struct NamedPortCounter {
  const char* name;
  PortCounter counter;
  const char* text;
};

constexpr std::array kPortCounters = {
    NamedPortCounter{"rx_packets", &SwitchPortCounters::rx_packets, "packets that came in"},
    NamedPortCounter{"rx_bytes", &SwitchPortCounters::rx_bytes, "their bytes"},
    NamedPortCounter{"rx_forwarded", &SwitchPortCounters::rx_forwarded,
                     "packets passed to the one port where the destination was heard"},
    NamedPortCounter{
        "rx_flooded", &SwitchPortCounters::rx_flooded,
        "packets passed to all other ports: to a group, or nobody knows the destination"},
    NamedPortCounter{"rx_dropped_runt", &SwitchPortCounters::rx_dropped_runt,
                     "packets dropped as shorter than an Ethernet header"},
    NamedPortCounter{"rx_dropped_source", &SwitchPortCounters::rx_dropped_source,
                     "packets dropped, as the source address is a group's or zero"},
    NamedPortCounter{"rx_dropped_moved", &SwitchPortCounters::rx_dropped_moved,
                     "packets dropped, as the source is a station of a segment at another port"},
    NamedPortCounter{"rx_dropped_link_local", &SwitchPortCounters::rx_dropped_link_local,
                     "packets dropped as for the neighbour only (01-80-C2-00-00-0x)"},
    NamedPortCounter{"rx_dropped_same_port", &SwitchPortCounters::rx_dropped_same_port,
                     "packets dropped, as the destination was heard on the same port"},
    NamedPortCounter{"rx_dropped_no_port", &SwitchPortCounters::rx_dropped_no_port,
                     "packets to be flooded, dropped, as no other port is up"},
    NamedPortCounter{"tx_enqueued", &SwitchPortCounters::tx_enqueued,
                     "packets put into the output queue"},
    NamedPortCounter{"tx_packets", &SwitchPortCounters::tx_packets,
                     "packets that the link has taken"},
    NamedPortCounter{"tx_bytes", &SwitchPortCounters::tx_bytes, "their bytes"},
    NamedPortCounter{"tx_dropped_queue_full", &SwitchPortCounters::tx_dropped_queue_full,
                     "packets dropped, as the output queue was full"},
    NamedPortCounter{"tx_dropped_link_down", &SwitchPortCounters::tx_dropped_link_down,
                     "packets dropped that waited when the link went down"},
};

const char* name_of(PortCounter counter) {
  for (const NamedPortCounter& named : kPortCounters) {
    if (named.counter == counter) return named.name;
  }
  return "";
}

/// Addresses that no bridge forwards: IEEE 802.1Q table 8-1.
bool is_link_local_group(const rte_ether_addr& address) {
  const std::uint8_t* b = address.addr_bytes;
  return b[0] == 0x01 && b[1] == 0x80 && b[2] == 0xC2 && b[3] == 0 && b[4] == 0 && b[5] <= 0x0F;
}

/// The port's entry, or the last one, or the defaults.
template <typename Entry>
Entry of_port(const std::vector<Entry>& entries, std::size_t port) {
  return entries.empty() ? Entry{} : entries[std::min(port, entries.size() - 1)];
}

}  // namespace

LearningSwitch::LearningSwitch(const LearningSwitchConfig& config)
    : macs_(config.mac_table_size, config.mac_ageing_ns, config.seed) {
  assert(config.ports <= kPortsMax);
  for (PortNumber port = 0; port < config.ports; ++port) {
    ports_.push_back(
        std::make_unique<Port>(of_port(config.outputs, port), of_port(config.priorities, port)));
  }
}

void LearningSwitch::receive(PortNumber ingress, rte_mbuf** packets, std::uint16_t count,
                             std::uint64_t now_ns) {
  mac_counters_.aged.add(macs_.expire(now_ns));
  // What a port is heard on is up, whether it has been noticed already or not.
  if (count > 0) ports_[ingress]->up = true;
  for (std::uint16_t i = 0; i < count; ++i) {
    receive_one(ingress, packets[i], now_ns);
  }
}

void LearningSwitch::receive_one(PortNumber ingress, rte_mbuf* packet, std::uint64_t now_ns) {
  Port& from = *ports_[ingress];
  from.counters.rx_packets.add();
  from.counters.rx_bytes.add(packet->pkt_len);

  rte_ether_hdr copy;  // used where the header lies in several segments
  const auto* header =
      static_cast<const rte_ether_hdr*>(rte_pktmbuf_read(packet, 0, sizeof(copy), &copy));
  if (header == nullptr) return drop(from, packet, &SwitchPortCounters::rx_dropped_runt);
  const rte_ether_addr& source = header->src_addr;
  const rte_ether_addr& destination = header->dst_addr;
  if (rte_is_valid_assigned_ether_addr(&source) == 0) {
    return drop(from, packet, &SwitchPortCounters::rx_dropped_source);
  }
  if (const auto fixed = fixed_port_of(source); !fixed) {
    learn(source, ingress, now_ns);
  } else if (*fixed != ingress) {
    return drop(from, packet, &SwitchPortCounters::rx_dropped_moved);
  }
  if (is_link_local_group(destination)) {
    return drop(from, packet, &SwitchPortCounters::rx_dropped_link_local);
  }
  if (rte_is_multicast_ether_addr(&destination) != 0) return flood(ingress, packet);
  auto egress = fixed_port_of(destination);
  if (!egress) egress = macs_.find(destination);
  if (!egress) return flood(ingress, packet);
  if (*egress == ingress) return drop(from, packet, &SwitchPortCounters::rx_dropped_same_port);
  from.counters.rx_forwarded.add();
  Port& to = *ports_[*egress];
  if (!to.queue.has_room(packet->pkt_len)) {
    to.counters.tx_dropped_queue_full.add();
    rte_pktmbuf_free(packet);
    return;
  }
  to.counters.tx_enqueued.add();
  to.queue.push(packet, priority_of(packet, from.priorities));
}

std::optional<PortNumber> LearningSwitch::fixed_port_of(const rte_ether_addr& station) const {
  for (const FixedStation& fixed : fixed_) {
    if (rte_is_same_ether_addr(&fixed.address, &station) != 0) return fixed.port;
  }
  return std::nullopt;
}

void LearningSwitch::learn(const rte_ether_addr& source, PortNumber port, std::uint64_t now_ns) {
  switch (macs_.learn(source, port, now_ns)) {
    case MacTable::Learned::known:
      break;
    case MacTable::Learned::added:
      mac_counters_.added.add();
      break;
    case MacTable::Learned::moved:
      mac_counters_.moved.add();
      break;
    case MacTable::Learned::full:
      mac_counters_.full.add();
      break;
  }
}

void LearningSwitch::flood(PortNumber ingress, rte_mbuf* packet) {
  Port& from = *ports_[ingress];
  std::array<Port*, kPortsMax> targets;
  std::size_t count = 0;
  bool any_up = false;
  for (PortNumber number = 0; number < port_count(); ++number) {
    Port& port = *ports_[number];
    if (number == ingress || !port.up) continue;
    any_up = true;
    if (!port.queue.has_room(packet->pkt_len)) {
      port.counters.tx_dropped_queue_full.add();
    } else {
      targets[count++] = &port;
    }
  }
  if (!any_up) return drop(from, packet, &SwitchPortCounters::rx_dropped_no_port);
  from.counters.rx_flooded.add();
  if (count == 0) {
    rte_pktmbuf_free(packet);
    return;
  }
  // A reference for each target, before the first of them can give its own back.
  if (count > 1) rte_pktmbuf_refcnt_update(packet, static_cast<std::int16_t>(count - 1));
  const std::uint8_t priority = priority_of(packet, from.priorities);
  for (std::size_t i = 0; i < count; ++i) {
    targets[i]->counters.tx_enqueued.add();
    targets[i]->queue.push(packet, priority);
  }
}

void LearningSwitch::drop(Port& port, rte_mbuf* packet, DropCounter reason) {
  (port.counters.*reason).add();
  if (port.observer != nullptr) port.observer->on_drop(packet, name_of(reason));
  rte_pktmbuf_free(packet);
}

std::uint16_t LearningSwitch::output(PortNumber egress, rte_mbuf** packets, std::uint16_t count,
                                     std::uint64_t now_ns) const {
  return ports_[egress]->queue.front(packets, count, now_ns);
}

void LearningSwitch::sent(PortNumber egress, std::uint16_t count, std::uint64_t now_ns) {
  Port& port = *ports_[egress];
  port.counters.tx_bytes.add(port.queue.sent(count, now_ns));
  port.counters.tx_packets.add(count);
}

void LearningSwitch::set_link(PortNumber port, bool up) {
  Port& changed = *ports_[port];
  if (changed.up && !up) {
    changed.counters.tx_dropped_link_down.add(changed.queue.clear());
    mac_counters_.flushed.add(macs_.forget_port(port));
  }
  changed.up = up;
}

void LearningSwitch::set_drop_observer(PortNumber port, DropObserver* observer) {
  ports_[port]->observer = observer;
}

void LearningSwitch::visit_port_counters(PortNumber port, CounterVisitor visit,
                                         void* context) const {
  for (const NamedPortCounter& named : kPortCounters) {
    visit(context, named.name, (ports_[port]->counters.*named.counter).value());
  }
  const OutputPortCounters& queue = ports_[port]->queue.counters();
  visit(context, "tx_ecn_marked", queue.ecn_marked.value());
  visit(context, "tx_ecn_not_marked", queue.ecn_not_marked.value());
}

void LearningSwitch::describe_port_counters(CounterTextVisitor visit, void* context) {
  for (const NamedPortCounter& named : kPortCounters) {
    visit(context, named.name, named.text);
  }
  visit(context, "tx_ecn_marked",
        "packets that got an ECN mark here, or came with it and would have");
  visit(context, "tx_ecn_not_marked", "packets to be marked, but not ECN-capable or not writable");
}

void LearningSwitch::visit_mac_counters(CounterVisitor visit, void* context) const {
  const std::uint64_t forgotten = mac_counters_.aged.value() + mac_counters_.flushed.value();
  const std::uint64_t added = mac_counters_.added.value();
  // From counters, as other threads must not look into the table itself.
  visit(context, "entries", added > forgotten ? added - forgotten : 0);
  visit(context, "capacity", macs_.capacity());
  visit(context, "added", added);
  visit(context, "moved", mac_counters_.moved.value());
  visit(context, "aged", mac_counters_.aged.value());
  visit(context, "flushed", mac_counters_.flushed.value());
  visit(context, "full", mac_counters_.full.value());
}

void LearningSwitch::describe_mac_counters(CounterTextVisitor visit, void* context) {
  visit(context, "entries", "addresses in the table now");
  visit(context, "capacity", "addresses that it has room for");
  visit(context, "added", "addresses learned");
  visit(context, "moved", "addresses heard on another port than before");
  visit(context, "aged", "addresses forgotten, as they were not heard for long");
  visit(context, "flushed", "addresses forgotten, as their port went down");
  visit(context, "full", "addresses not learned for want of room");
}

}  // namespace rockhopper::stack::net
