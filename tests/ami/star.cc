// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/ami/star.h"

#include <algorithm>
#include <array>
#include <utility>

#include "apps/node/node.h"
#include "tests/ami/allocations.h"
#include "tests/sim/seeded_runs.h"

namespace rockhopper::sim {

struct Star::Node final : stack::Application {
  Node(Star& of, unsigned number)
      : star(of),
        index(number),
        random(number + 1),
        link(nic(), number, {}, 0, {}, 0),
        address(stack::IpAddress::from_ipv4(0x0a000001 + index)) {
    NodeConfig node_config{.port = LinkPort{{&link}},
                           .addresses = {{address, 24}},
                           .engine = {.random = &random, .max_qp = 256},
                           .clock = &star.network_.clock(),
                           .packet_pool = pools().node(index % 2)};
    for (unsigned other = 0; other < star.config_.nodes; ++other) {
      if (other == index) continue;
      node_config.neighbours.push_back(
          {stack::IpAddress::from_ipv4(0x0a000001 + other),
           stack::sim::Network::mac_of(static_cast<stack::sim::NodeIndex>(other + 1))});
    }
    if (star.config_.dynamic_connections) node_config.dc.emplace().sessions.contexts = 256;
    endpoint = must(rockhopper::Node::open(std::move(node_config)));
    ami::AdapterConfig config = star.config_.adapter;
    config.timeout = star.config_.timeout;
    adapter = must(ami::Adapter::create(endpoint->engine(), endpoint->shard(0).dc(), config));
    station = std::make_unique<stack::sim::Station>(star.network_.events(), star.network_.clock(),
                                                    nic(), link, endpoint->host(), this);
  }

  std::uint64_t turn(std::uint64_t now_ns) override {
    for (bool moved = true; moved;) {
      const AllocationsForbidden forbidden;
      moved = adapter->progress(now_ns);
      for (const auto& lane : star.lanes_) {
        if (lane->node == index && !lane->stopped) moved = lane->context->advance() > 0 || moved;
      }
      if (star.on_turn) star.on_turn(index);
    }
    return adapter->next_deadline_ns();
  }
  void kill() { link.cut(true); }
  void wake() { station->wake(star.now_ns()); }

  [[nodiscard]] stack::sim::Nic& nic() const {
    return star.network_.nic(static_cast<stack::sim::NodeIndex>(index + 1));
  }

  Star& star;
  unsigned index;
  roce::SeededRandom random;
  SelectiveDrop link;
  stack::IpAddress address;
  std::unique_ptr<rockhopper::Node> endpoint;
  std::unique_ptr<ami::Adapter> adapter;
  std::unique_ptr<stack::sim::Station> station;
};

Star::Star(const StarConfig& config) : config_(config) {
  const stack::sim::NodeIndex fabric = network_.add_switch({.pool = pools().arriving()});
  for (unsigned i = 0; i < config.nodes; ++i) {
    network_.add_link(
        network_.add_host(), fabric,
        {.rate_bits_per_s = config.rate_bits_per_s,
         .delay_ns = config.delay_ns + (i == 1 ? config.delay_of_1_ns : 0),
         .faults = stack::FaultConfig{.rx = config.faults, .tx = config.faults, .seed = i + 1},
         .pool = pools().node(0),
         .copy_pool = pools().arriving()});
  }
  must(network_.build());
  for (unsigned i = 0; i < config.nodes; ++i) {
    nodes_.push_back(std::make_unique<Node>(*this, i));
  }
}

Star::~Star() = default;

StarLane& Star::add_lane(unsigned node, ami::LaneConfig config, std::uint32_t queue) {
  auto made = std::make_unique<StarLane>();
  made->node = node;
  made->id = config.self = static_cast<ami::EndpointId>(lanes_.size());
  config.max_endpoints = std::max<std::uint16_t>(config.max_endpoints, 256);
  made->lane = must(nodes_.at(node)->adapter->add_lane(config));
  made->context = std::make_unique<ami::Context>(*made->lane, queue);
  lanes_.push_back(std::move(made));
  return *lanes_.back();
}

void Star::connect(StarLane& a, StarLane& b) {
  const std::array<StarLane*, 2> ends{&a, &b};
  const std::array<Node*, 2> nodes{nodes_.at(a.node).get(), nodes_.at(b.node).get()};
  if (config_.dynamic_connections) {
    for (unsigned i = 0; i < 2; ++i) {
      const dc::Dct& target = nodes[1 - i]->adapter->target(*ends[1 - i]->lane);
      must(nodes[i]->adapter->add_peer(
          *ends[i]->lane, ends[1 - i]->id,
          {.av = {.source = nodes[i]->address, .destination = nodes[1 - i]->address},
           .number = target.number(),
           .access_key = target.access_key()}));
    }
    return;
  }
  std::array<roce::QueuePair*, 2> qps{};
  for (unsigned i = 0; i < 2; ++i) {
    qps[i] =
        must(nodes[i]->endpoint->engine().create_qp(nodes[i]->adapter->qp_init(*ends[i]->lane)));
  }
  roce::QpAttributes attributes;
  attributes.path_mtu = roce::PathMtu::mtu_1024;
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 16;
  attributes.min_rnr_timer = 1;
  attributes.timeout = config_.timeout;
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  attributes.qp_access_flags = roce::kAccessAll;
  for (unsigned i = 0; i < 2; ++i) {
    attributes.ah_attr = {.source = nodes[i]->address, .destination = nodes[1 - i]->address};
    attributes.dest_qp_num = qps[1 - i]->number();
    must(qps[i]->bring_up(attributes, roce::QpState::rts));
    must(nodes[i]->adapter->add_peer(*ends[i]->lane, ends[1 - i]->id, *qps[i]));
  }
}

void Star::open() {
  for (const auto& lane : lanes_) {
    must(nodes_[lane->node]->adapter->open(*lane->lane));
  }
  wake();
}

roce::MemoryKey Star::expose(unsigned node, void* memory, std::size_t bytes) {
  Node& at = *nodes_.at(node);
  return must(at.endpoint->engine().register_memory(at.adapter->pd(), memory, bytes,
                                                    roce::kAccessAll))
      .key;
}

void Star::kill(unsigned node) { nodes_.at(node)->kill(); }

void Star::wake() {
  for (const auto& node : nodes_) {
    node->wake();
  }
}

bool Star::run_until(const std::function<bool()>& done, std::uint64_t limit_ns) {
  const std::uint64_t limit_at_ns = network_.now_ns() + limit_ns;
  while (!done()) {
    if (network_.run_some(limit_at_ns, 1)) return done();
  }
  return true;
}

ami::Adapter& Star::adapter(unsigned node) { return *nodes_.at(node)->adapter; }

}  // namespace rockhopper::sim
