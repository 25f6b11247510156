// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/sim/sim_network.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

namespace rockhopper::sim {
namespace {

constexpr std::uint64_t kBusyStepNs = 1'000;

stack::IpAddress address_of(unsigned index, bool ipv6) {
  if (!ipv6) return stack::IpAddress::from_ipv4(0x0a000001 + index);
  stack::IpAddress address{{0xfd, 0x52, 0x6f}};
  address.bytes[15] = static_cast<std::uint8_t>(1 + index);
  return address;
}

}  // namespace

void die(const std::string& text) {
  std::fprintf(stderr, "simulation: %s\n", text.c_str());
  std::abort();
}

PoolSet::PoolSet(std::uint32_t mbufs, std::uint16_t data_room, std::uint32_t arriving_mbufs) {
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    const bool arriving = i == pools_.size() - 1;
    pools_[i] = must(stack::MbufPool::create(
        {.size = arriving ? arriving_mbufs : mbufs, .data_room = data_room}));
  }
}

std::uint32_t PoolSet::in_use() const {
  return pools_[0].in_use() + pools_[1].in_use() + pools_[2].in_use();
}

SimNode::SimNode(const NetworkConfig& config, unsigned index, stack::sim::Network& network)
    : address_(address_of(index, config.ipv6)), random_(config.seed * 2 + index) {
  rte_mempool* pool = config.pools->node(index);
  stack::Link* link = &network.nic(static_cast<stack::sim::NodeIndex>(index));
  if (index == 0 && !config.capture.empty()) {
    capture_ = must(stack::PcapWriter::open(*link, {.path = config.capture}));
    link = capture_.get();
  }
  stack::FaultConfig faults{.tx = config.faults.rates, .seed = config.seed * 2 + index};
  faults_ = std::make_unique<stack::FaultInjector>(*link, pool, faults);
  std::set<std::uint64_t> numbers;
  for (const auto& [node, number] : config.faults.dropped_packets) {
    if (node == index) numbers.insert(number);
  }
  selective_ = std::make_unique<SelectiveDrop>(
      *faults_, config.seed * 2 + index, config.faults.dropped_opcodes,
      config.faults.dropped_percent, std::move(numbers), config.faults.marked_percent);
  NodeConfig node{.port = LinkPort{{selective_.get()}},
                  .addresses = {{address_, static_cast<std::uint8_t>(config.ipv6 ? 64 : 24)}},
                  .clock = &network.clock(),
                  .packet_pool = pool};
  if (config.static_neighbours) {
    const auto peer = static_cast<stack::sim::NodeIndex>(1 - index);
    node.neighbours = {{address_of(peer, config.ipv6), stack::sim::Network::mac_of(peer)}};
  }
  if (!config.capture_prefix.empty()) {
    node.pcap.path = fmt::format("{}{}.pcapng", config.capture_prefix, index);
  } else {
    node.host.drop_observer = node.engine.drop_observer = capture_.get();
  }
  node.host.seed = config.seed;
  node.host.priority_tags = config.priority_tags;
  node.engine.random = &random_;
  node.engine.max_qp = 64;
  node.engine.max_unacked_packets = config.max_unacked_packets;
  node.engine.max_held_packets = config.max_held_packets;
  node.engine.plain_bursts = config.plain_bursts;
  node.engine.pkeys = kPkeys[index];
  node_ = must(Node::open(std::move(node)));
}

std::string wanted_captures(std::uint64_t seed) {
  const char* folder = std::getenv("ROCKHOPPER_CAPTURES");
  return folder == nullptr ? "" : fmt::format("{}/{}-", folder, seed);
}

SimNetwork::SimNetwork(const NetworkConfig& config) {
  const stack::sim::NodeIndex first = network_.add_host();
  const stack::sim::NodeIndex second = network_.add_host();
  network_.add_link(first, second,
                    {.delay_ns = config.delay_ns,
                     .in_flight_packets = config.wire_packets,
                     .copy_pool = config.pools->arriving(),
                     .segment_seed = config.segment_arrivals ? config.seed | 1 : 0});
  must(network_.build());
  for (unsigned i = 0; i < nodes_.size(); ++i) {
    nodes_[i] = std::make_unique<SimNode>(config, i, network_);
  }
}

bool SimNetwork::poll() {
  bool moved = false;
  for (const auto& node : nodes_) {
    moved = node->node().turn() || moved;
  }
  return moved;
}

std::uint64_t SimNetwork::next_deadline_ns() const {
  return std::min(nodes_[0]->node().next_deadline_ns(), nodes_[1]->node().next_deadline_ns());
}

bool SimNetwork::advance(std::uint64_t limit_ns) {
  std::uint64_t next_ns = next_deadline_ns();
  if (next_ns > limit_ns) return false;
  if (next_ns <= now_ns()) {
    // Allowed while packets or mbufs are short; the run's owner looks at the count.
    ++busy_deadlines_;
    next_ns = now_ns() + kBusyStepNs;
  }
  network_.advance_to(next_ns);
  return true;
}

void SimNetwork::advance_to(std::uint64_t time_ns) { network_.advance_to(time_ns); }

void SimNetwork::connect(const std::array<roce::QueuePair*, 2>& qps, roce::QpAttributes attributes,
                         const std::array<wire::Psn, 2>& first_psns) {
  attributes.qp_access_flags = roce::kAccessAll;
  for (unsigned i = 0; i < nodes_.size(); ++i) {
    attributes.ah_attr = {.source = nodes_[i]->address(), .destination = nodes_[1 - i]->address()};
    attributes.dest_qp_num = qps[1 - i]->number();
    attributes.sq_psn = first_psns[i];
    attributes.rq_psn = first_psns[1 - i];
    must(qps[i]->bring_up(attributes, roce::QpState::rts));
  }
}

void SimNetwork::cut(bool cut) {
  for (const auto& node : nodes_) {
    node->cut(cut);
  }
}

bool SimNetwork::run_to_rest(std::uint64_t limit_ns) {
  for (;;) {
    while (poll()) {
    }
    if (next_deadline_ns() == stack::kNever) return true;
    if (!advance(limit_ns)) return false;
  }
}

}  // namespace rockhopper::sim
