// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/sim/network.h"

#include <algorithm>
#include <cassert>
#include <deque>

namespace rockhopper::stack::sim {
namespace {

constexpr std::uint32_t kUnreached = UINT32_MAX;

}  // namespace

Network::Network(std::uint64_t start_ns) : clock_(start_ns) {}

Network::~Network() = default;

rte_ether_addr Network::mac_of(NodeIndex node) {
  const unsigned number = node + 1u;
  return {
      {0x02, 0, 0, 0, static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number)}};
}

NodeIndex Network::add_host(const PriorityMap& priorities) {
  assert(nodes_.size() < kNodesMax);
  nodes_.emplace_back().priorities = priorities;
  return static_cast<NodeIndex>(nodes_.size() - 1);
}

NodeIndex Network::add_switch(const SwitchConfig& config) {
  const NodeIndex index = add_host();
  nodes_[index].fabric = std::make_unique<Switch>(events_, config, mac_of(index));
  return index;
}

LinkIndex Network::add_link(NodeIndex first, NodeIndex second, const LinkConfig& config) {
  assert(first != second);
  Link link{.nodes = {first, second}, .mtu = config.mtu, .channels = {}};
  for (unsigned direction = 0; direction < 2; ++direction) {
    ChannelConfig channel{.output = config.switch_output,
                          .delay_ns = config.delay_ns,
                          .in_flight_packets = config.in_flight_packets,
                          .fault_direction = direction,
                          .fault_pool = config.pool,
                          .copy_pool = config.copy_pool,
                          .segment_seed = config.segment_seed};
    if (channel.segment_seed != 0) channel.segment_seed += direction;
    if (nodes_[link.nodes[direction]].fabric == nullptr) {
      channel.output = {.queue_packets = SIZE_MAX, .queue_bytes = config.nic_queue_bytes};
    }
    channel.output.rate_bits_per_s = config.rate_bits_per_s;
    channel.output.seed = config.switch_output.seed * 2 + direction;
    if (config.faults) {
      channel.faults = direction == 0 ? config.faults->tx : config.faults->rx;
      channel.fault_seed = config.faults->seed;
    }
    link.channels[direction] = std::make_unique<Channel>(events_, channel);
  }
  const auto index = static_cast<LinkIndex>(links_.size());
  links_.push_back(std::move(link));
  nodes_[first].links.push_back(index);
  nodes_[second].links.push_back(index);
  return index;
}

Expected<void> Network::build() {
  find_tree();
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node].fabric == nullptr && nodes_[node].links.size() != 1) {
      return fail(ErrorCode::invalid_argument, "host {} has {} links, not one", node,
                  nodes_[node].links.size());
    }
    attach(static_cast<NodeIndex>(node));
  }
  for (std::size_t host = 0; host < nodes_.size(); ++host) {
    if (nodes_[host].fabric != nullptr) continue;
    const std::vector<std::uint32_t> hops = hops_to(static_cast<NodeIndex>(host));
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      if (hops[node] == kUnreached) {
        return fail(ErrorCode::invalid_argument, "there is no way from node {} to host {}", node,
                    host);
      }
      if (nodes_[node].fabric == nullptr) continue;
      std::vector<Switch::PortIndex> ports;
      for (std::size_t port = 0; port < nodes_[node].links.size(); ++port) {
        const NodeIndex next = other_end(nodes_[node].links[port], static_cast<NodeIndex>(node));
        const bool passes = nodes_[next].fabric != nullptr || next == host;
        if (passes && hops[next] + 1 == hops[node]) {
          ports.push_back(static_cast<Switch::PortIndex>(port));
        }
      }
      nodes_[node].fabric->set_route(static_cast<std::uint16_t>(host + 1), std::move(ports));
    }
  }
  return {};
}

/// Links to each host's NIC, and each switch's ports in the order of its links.
void Network::attach(NodeIndex node) {
  for (const LinkIndex index : nodes_[node].links) {
    Link& link = links_[index];
    const unsigned out = link.nodes[0] == node ? 0 : 1;
    Channel& outgoing = *link.channels[out];
    Channel& incoming = *link.channels[1 - out];
    if (nodes_[node].fabric != nullptr) {
      nodes_[node].fabric->add_port(incoming, outgoing, link.in_tree);
    } else {
      nodes_[node].nic = std::make_unique<Nic>(mac_of(node), link.mtu, nodes_[node].priorities);
      nodes_[node].nic->attach(outgoing, incoming);
    }
  }
}

/// Distances in links; hosts do not forward.
std::vector<std::uint32_t> Network::hops_to(NodeIndex from) const {
  std::vector<std::uint32_t> hops(nodes_.size(), kUnreached);
  std::deque<NodeIndex> reached{from};
  hops[from] = 0;
  while (!reached.empty()) {
    const NodeIndex node = reached.front();
    reached.pop_front();
    if (node != from && nodes_[node].fabric == nullptr) continue;
    for (const LinkIndex link : nodes_[node].links) {
      const NodeIndex next = other_end(link, node);
      if (hops[next] != kUnreached) continue;
      hops[next] = hops[node] + 1;
      reached.push_back(next);
    }
  }
  return hops;
}

/// Chooses among all links some that reach every node once.
void Network::find_tree() {
  std::vector<bool> known(nodes_.size(), false);
  std::deque<NodeIndex> reached;
  for (std::size_t first = 0; first < nodes_.size(); ++first) {
    if (known[first]) continue;
    known[first] = true;
    reached.push_back(static_cast<NodeIndex>(first));
    while (!reached.empty()) {
      const NodeIndex node = reached.front();
      reached.pop_front();
      for (const LinkIndex link : nodes_[node].links) {
        const NodeIndex next = other_end(link, node);
        if (known[next]) continue;
        known[next] = true;
        links_[link].in_tree = true;
        reached.push_back(next);
      }
    }
  }
}

bool Network::run_some(std::uint64_t limit_ns, std::size_t events) {
  for (std::uint64_t next_ns = events_.next_ns(); next_ns <= limit_ns && next_ns != kNever;
       next_ns = events_.next_ns()) {
    if (events-- == 0) return false;
    clock_.advance_to(next_ns);
    events_.run_next();
  }
  if (limit_ns != kNever) clock_.advance_to(limit_ns);
  return true;
}

bool Network::run_until(std::uint64_t limit_ns) {
  while (!run_some(limit_ns, SIZE_MAX)) {
  }
  return events_.next_ns() == kNever;
}

void Network::advance_to(std::uint64_t now_ns) {
  assert(events_.next_ns() >= now_ns);
  clock_.advance_to(now_ns);
}

}  // namespace rockhopper::stack::sim
