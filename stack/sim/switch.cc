// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/sim/switch.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include <netinet/in.h>
#include <rte_byteorder.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "stack/net/pfc_frame.h"
#include "stack/net/traffic_class.h"
#include "stack/random.h"

namespace rockhopper::stack::sim {
namespace {

constexpr std::uint16_t kBurst = 32;

/// Addresses and ports of an untagged frame; 0 for what has none.
std::uint64_t flow_hash(const rte_mbuf* packet, std::uint64_t seed) {
  const auto* frame = rte_pktmbuf_mtod(packet, const std::uint8_t*);
  const std::uint32_t length = packet->data_len;
  std::uint64_t hash = seed;
  const auto mix = [&hash](const std::uint8_t* bytes, std::size_t size) {
    for (std::size_t i = 0; i < size; i += sizeof(std::uint32_t)) {
      std::uint32_t word = 0;
      std::memcpy(&word, bytes + i, sizeof word);
      hash = Random(hash ^ word).next();
    }
  };
  constexpr std::size_t kL3 = sizeof(rte_ether_hdr);
  if (length >= kL3 + sizeof(rte_ipv4_hdr) + sizeof(rte_udp_hdr) && frame[kL3] >> 4 == IPVERSION) {
    mix(frame + kL3 + offsetof(rte_ipv4_hdr, src_addr), 8);
    mix(frame + kL3 + sizeof(rte_ipv4_hdr), 4);
  } else if (length >= kL3 + sizeof(rte_ipv6_hdr) + sizeof(rte_udp_hdr)) {
    mix(frame + kL3 + offsetof(rte_ipv6_hdr, src_addr), 32);
    mix(frame + kL3 + sizeof(rte_ipv6_hdr), 4);
  }
  return hash;
}

}  // namespace

struct Switch::Port final : ChannelEnd {
  Port(Switch& of, PortIndex number, Channel& in, Channel& out, bool tree)
      : owner(of), index(number), incoming(in), outgoing(out), in_tree(tree) {}
  void on_arrival(std::uint64_t now_ns) override { owner.receive(*this, now_ns); }
  void on_departure(const rte_mbuf* packet, std::uint64_t now_ns) override {
    owner.departed(packet, now_ns);
  }

  Switch& owner;
  PortIndex index;
  Channel& incoming;
  Channel& outgoing;
  bool in_tree;
  std::array<std::uint64_t, kPriorities> waiting_bytes{};  ///< that came in here
  std::uint8_t paused = 0;  ///< bit n: the neighbour has been asked to pause priority n
};

Switch::Switch(EventQueue& events, const SwitchConfig& config, const rte_ether_addr& mac)
    : events_(events), config_(config), mac_(mac) {}

Switch::~Switch() = default;

Switch::PortIndex Switch::add_port(Channel& incoming, Channel& outgoing, bool in_tree) {
  const auto index = static_cast<PortIndex>(ports_.size());
  ports_.push_back(std::make_unique<Port>(*this, index, incoming, outgoing, in_tree));
  incoming.set_receiver(ports_.back().get());
  outgoing.set_sender(ports_.back().get());
  return index;
}

void Switch::set_route(std::uint16_t station, std::vector<PortIndex> ports) {
  if (routes_.size() <= station) routes_.resize(station + 1u);
  routes_[station] = std::move(ports);
}

void Switch::receive(Port& port, std::uint64_t now_ns) {
  std::array<rte_mbuf*, kBurst> packets;
  for (std::uint16_t count = kBurst; count == kBurst;) {
    count = port.incoming.receive(packets.data(), kBurst, now_ns);
    for (std::uint16_t i = 0; i < count; ++i) {
      forward(port, packets[i], now_ns);
    }
  }
}

void Switch::forward(Port& ingress, rte_mbuf* packet, std::uint64_t now_ns) {
  if (const auto pause = net::parse_pfc(packet)) {
    counters_.pfc_received.add();
    ingress.outgoing.obey(*pause, now_ns);
    rte_pktmbuf_free(packet);
    return;
  }
  if (packet->data_len < sizeof(rte_ether_hdr)) {
    counters_.dropped_no_route.add();
    rte_pktmbuf_free(packet);
    return;
  }
  packet->port = ingress.index;
  const auto* mac = rte_pktmbuf_mtod(packet, const std::uint8_t*);
  const auto station = static_cast<std::uint16_t>(mac[4] << 8 | mac[5]);
  const bool group = (mac[0] & 1) != 0;
  if (group || station >= routes_.size() || routes_[station].empty()) {
    flood(ingress, packet, now_ns);
    return;
  }
  const PortIndex egress = choose(routes_[station], packet);
  if (egress == ingress.index) {
    counters_.dropped_same_port.add();
    rte_pktmbuf_free(packet);
    return;
  }
  counters_.forwarded.add();
  enqueue(*ports_[egress], packet, now_ns);
}

Switch::PortIndex Switch::choose(const std::vector<PortIndex>& ports,
                                 const rte_mbuf* packet) const {
  return ports.size() == 1 ? ports[0] : ports[flow_hash(packet, config_.seed) % ports.size()];
}

void Switch::flood(const Port& ingress, rte_mbuf* packet, std::uint64_t now_ns) {
  std::vector<Port*> targets;
  for (const auto& port : ports_) {
    if (port->in_tree && port.get() != &ingress) targets.push_back(port.get());
  }
  if (targets.empty()) {
    counters_.dropped_no_route.add();
    rte_pktmbuf_free(packet);
    return;
  }
  counters_.flooded.add();
  if (config_.pool == nullptr) {
    // A reference for each target, before the first of them can give its own back.
    rte_pktmbuf_refcnt_update(packet, static_cast<std::int16_t>(targets.size() - 1));
  }
  for (Port* target : targets) {
    rte_mbuf* own = packet;
    // Each gets a copy where it can: the port that a packet came in at is kept in its mbuf, and
    // what a switch counts by it must not be changed by the next.
    if (config_.pool != nullptr && target != targets.back()) {
      own = rte_pktmbuf_copy(packet, config_.pool, 0, UINT32_MAX);
      if (own == nullptr) {
        counters_.dropped_no_mbuf.add();
        continue;
      }
    }
    enqueue(*target, own, now_ns);
  }
}

void Switch::enqueue(Port& egress, rte_mbuf* packet, std::uint64_t now_ns) {
  if (!egress.outgoing.has_room(packet->pkt_len)) {
    counters_.dropped_queue_full.add();
    rte_pktmbuf_free(packet);
    return;
  }
  const std::uint8_t priority = net::priority_of(packet, config_.priorities);
  if (config_.pfc) {
    Port& ingress = *ports_[packet->port];
    ingress.waiting_bytes[priority] += packet->pkt_len;
    if (ingress.waiting_bytes[priority] > config_.pfc->xoff_bytes &&
        (ingress.paused >> priority & 1) == 0) {
      ingress.paused = static_cast<std::uint8_t>(ingress.paused | 1u << priority);
      send_pause(ingress, priority, net::PfcFrame::kQuantaMax, now_ns);
    }
  }
  egress.outgoing.send(packet, priority, now_ns);
}

void Switch::departed(const rte_mbuf* packet, std::uint64_t now_ns) {
  if (!config_.pfc || packet->port >= ports_.size()) return;  // pause frames came from nowhere
  Port& ingress = *ports_[packet->port];
  const std::uint8_t priority = net::priority_of(packet, config_.priorities);
  ingress.waiting_bytes[priority] -= packet->pkt_len;
  if (ingress.waiting_bytes[priority] <= config_.pfc->xon_bytes &&
      (ingress.paused >> priority & 1) != 0) {
    ingress.paused = static_cast<std::uint8_t>(ingress.paused & ~(1u << priority));
    send_pause(ingress, priority, 0, now_ns);
  }
}

void Switch::send_pause(Port& port, std::uint8_t priority, std::uint16_t quanta,
                        std::uint64_t now_ns) {
  net::PfcFrame frame;
  frame.priorities = static_cast<std::uint8_t>(1u << priority);
  frame.quanta[priority] = quanta;
  rte_mbuf* packet = net::make_pfc(frame, mac_, config_.pool);
  if (packet == nullptr) {
    counters_.pfc_no_mbuf.add();
  } else {
    counters_.pfc_sent.add();
    port.outgoing.send_control(packet, now_ns);
  }
  if (quanta > 0) {
    // Half of a pause later it is prolonged.
    const std::uint64_t rate = port.incoming.config().output.rate_bits_per_s;
    events_.schedule_by(*this, now_ns + net::pause_ns(quanta, rate) / 2);
  }
}

/// Prolongs the pauses.
void Switch::run(std::uint64_t now_ns) {
  for (const auto& port : ports_) {
    for (std::uint8_t priority = 0; priority < kPriorities; ++priority) {
      if ((port->paused >> priority & 1) != 0) {
        send_pause(*port, priority, net::PfcFrame::kQuantaMax, now_ns);
      }
    }
  }
}

}  // namespace rockhopper::stack::sim
