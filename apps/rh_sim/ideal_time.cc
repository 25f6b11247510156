// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_sim/ideal_time.h"

#include <algorithm>
#include <array>
#include <queue>

#include "stack/net/output_port.h"

namespace rockhopper::apps::sim {
namespace {

using roce::WrOpcode;
using stack::sim::NodeIndex;

constexpr std::size_t kNoLink = SIZE_MAX;

// Bytes of a RoCEv2 packet's headers.
constexpr std::uint64_t kEthernet = 14;
constexpr std::uint64_t kUdpToIcrc = 8 + 12 + 4;  // UDP, BTH, ICRC
constexpr std::uint64_t kReth = 16;
constexpr std::uint64_t kAeth = 4;
constexpr std::uint64_t kAtomicEth = 28;
constexpr std::uint64_t kAtomicAckEth = 8;
constexpr std::uint64_t kImmediate = 4;

/// The packets of one direction of a message: `count` of them; all but the last carry a whole MTU.
struct Train {
  std::uint64_t count = 1;
  std::uint64_t first_header = 0;  ///< beyond those that all packets have
  std::uint64_t last_header = 0;
  std::uint64_t full_payload = 0;
  std::uint64_t last_payload = 0;
};

Train data_train(const FlowSpec& flow, std::uint64_t first_header, std::uint64_t last_header) {
  const std::uint64_t mtu = roce::bytes(flow.path_mtu);
  const std::uint64_t count = std::max<std::uint64_t>((flow.size + mtu - 1) / mtu, 1);
  return {count, first_header, last_header, mtu, flow.size - (count - 1) * mtu};
}

std::uint64_t wire_bytes(const Train& train, std::uint64_t packet, std::uint64_t ip_header) {
  const bool last = packet + 1 == train.count;
  const std::uint64_t payload = last ? (train.last_payload + 3) / 4 * 4 : train.full_payload;
  const std::uint64_t frame = kEthernet + ip_header + kUdpToIcrc + payload +
                              (packet == 0 ? train.first_header : 0) +
                              (last ? train.last_header : 0);
  return std::max<std::uint64_t>(frame, stack::net::kShortestFrameBytes) +
         stack::net::kWireOverheadBytes;
}

/// When the last packet has arrived at the end of a path that was empty.
template <typename Path>
double time_of(const Train& train, const Path& path, std::uint64_t ip_header) {
  std::vector<double> free_ns(path.size());
  double at_ns = 0;
  for (std::uint64_t packet = 0; packet < train.count; ++packet) {
    const double bits = 8 * static_cast<double>(wire_bytes(train, packet, ip_header));
    at_ns = 0;
    for (std::size_t i = 0; i < path.size(); ++i) {
      free_ns[i] =
          std::max(at_ns, free_ns[i]) + bits * 1e9 / static_cast<double>(path[i]->rate_bits_per_s);
      at_ns = free_ns[i] + static_cast<double>(path[i]->delay_ns);
    }
  }
  return at_ns;
}

struct Exchange {
  Train there;
  Train back;
};

Exchange exchange_of(const FlowSpec& flow) {
  const Train acknowledge{.first_header = kAeth};
  switch (flow.operation) {
    case WrOpcode::rdma_read:
      // A response of one packet has one AETH, else the first and the last have one each.
      return {{.first_header = kReth},
              data_train(flow, kAeth, flow.size > roce::bytes(flow.path_mtu) ? kAeth : 0)};
    case WrOpcode::atomic_cmp_and_swp:
    case WrOpcode::atomic_fetch_and_add:
      return {{.first_header = kAtomicEth}, {.first_header = kAeth + kAtomicAckEth}};
    case WrOpcode::rdma_write_with_imm:
      return {data_train(flow, kReth, kImmediate), acknowledge};
    case WrOpcode::rdma_write:
      return {data_train(flow, kReth, 0), acknowledge};
    default:
      return {data_train(flow, 0, 0), acknowledge};
  }
}

}  // namespace

IdealTimes::IdealTimes(const Scenario& scenario)
    : scenario_(scenario), links_of_(scenario.nodes.size()) {
  for (std::size_t i = 0; i < scenario.links.size(); ++i) {
    links_of_[scenario.links[i].first].push_back(i);
    links_of_[scenario.links[i].second].push_back(i);
  }
}

std::vector<std::size_t> IdealTimes::tree_to(NodeIndex root) const {
  std::vector<std::size_t> tree(scenario_.nodes.size(), kNoLink);
  std::queue<NodeIndex> reached({root});
  while (!reached.empty()) {
    const NodeIndex node = reached.front();
    reached.pop();
    for (const std::size_t link : links_of_[node]) {
      const LinkSpec& spec = scenario_.links[link];
      const NodeIndex other = spec.first == node ? spec.second : spec.first;
      if (other == root || tree[other] != kNoLink) continue;
      tree[other] = link;
      reached.push(other);
    }
  }
  return tree;
}

IdealTimes::Path IdealTimes::path(NodeIndex from, NodeIndex to) {
  auto found = trees_.find(to);
  if (found == trees_.end()) found = trees_.emplace(to, tree_to(to)).first;
  Path path;
  for (NodeIndex node = from; node != to;) {
    const std::size_t link = found->second[node];
    if (link == kNoLink) return {};
    const LinkSpec& spec = scenario_.links[link];
    path.push_back(&spec);
    node = spec.first == node ? spec.second : spec.first;
  }
  return path;
}

std::optional<std::uint64_t> IdealTimes::of(const FlowSpec& flow) {
  if (flow.transport != roce::QpType::rc) return {};
  const Path there = path(flow.from, flow.to);
  const Path back(there.rbegin(), there.rend());
  const std::uint64_t ip_header = scenario_.ipv6 ? 40 : 20;
  const Exchange exchange = exchange_of(flow);
  return static_cast<std::uint64_t>(time_of(exchange.there, there, ip_header) +
                                    time_of(exchange.back, back, ip_header));
}

}  // namespace rockhopper::apps::sim
