// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/node/node.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "apps/node/pause.h"
#include "stack/device_limits.h"
#include "stack/eal.h"
#include "stack/steering.h"
#include "stack/time_units.h"

namespace rockhopper {
namespace {

constexpr std::uint64_t kLinkCheckNs = 100 * kNsPerMs;
constexpr std::uint32_t kMbufsPerShard = 8192;

/// A device of the node does, or may: nothing is known of links from outside.
bool shares_buffers(const NodeConfig& config) {
  if (const auto* device = std::get_if<DevicePort>(&config.port)) {
    return stack::shares_buffers(device->device);
  }
  return std::holds_alternative<LinkPort>(config.port);
}

}  // namespace

Node::Node(NodeConfig config)
    : config_(std::move(config)), idler_(config_.idle), clock_(config_.clock) {}

Node::~Node() { stop(); }

Expected<std::unique_ptr<Node>> Node::open(NodeConfig config) {
  if (!stack::Eal::running()) {
    return fail(ErrorCode::invalid_state,
                "a node needs DPDK's environment: keep the result of stack::Eal::start()");
  }
  if (!std::has_single_bit(config.shards) || config.shards > stack::kShardsMax) {
    return fail(ErrorCode::invalid_argument,
                "the shards of a node are a power of two up to {}, not {}", stack::kShardsMax,
                config.shards);
  }
  std::unique_ptr<Node> node(new Node(std::move(config)));
  if (node->clock_ == nullptr) {
    node->own_clock_ = std::make_unique<stack::TscClock>();
    node->clock_ = node->own_clock_.get();
  }
  ROCKHOPPER_TRY(node->make_pool());
  ROCKHOPPER_TRY(
      node->links_,
      NodeLinks::open(node->config_,
                      {.clock = node->clock_,
                       .wall_offset_ns = node->own_clock_ ? node->own_clock_->wall_offset_ns() : 0,
                       .packet_pool = node->config_.packet_pool}));
  if (node->links_->qpns() != nullptr) node->config_.engine.qpns = node->links_->qpns();
  if (node->config_.personality) node->config_.personality->apply(node->config_);
  ROCKHOPPER_TRY(node->make_shards());
  if (PersonalityLink* look = node->links_->personality()) look->attach(node->engine());
  if (node->is_published()) {
    for (NamedCounters& group : node->counters()) {
      ROCKHOPPER_TRY(node->publish(std::move(group)));
    }
    ROCKHOPPER_TRY(node->publish_queue_pairs());
  }
  return node;
}

Expected<void> Node::make_pool() {
  if (config_.packet_pool != nullptr) return {};
  const auto data_room =
      std::max<std::uint16_t>(RTE_MBUF_DEFAULT_DATAROOM,
                              static_cast<std::uint16_t>(mtu_of(config_) + stack::kFrameOverhead));
  ROCKHOPPER_TRY(own_pool_, stack::MbufPool::create({.size = kMbufsPerShard * config_.shards - 1,
                                                     .data_room = data_room,
                                                     .of_this_process = !shares_buffers(config_)}));
  config_.packet_pool = own_pool_.get();
  return {};
}

Expected<void> Node::make_shards() {
  const auto* none = std::get_if<NoPort>(&config_.port);
  mac_ = none != nullptr ? none->mac : links_->link(0).mac();
  for (std::uint16_t index = 0; index < config_.shards; ++index) {
    ROCKHOPPER_TRY(auto made,
                   Shard::create(config_, {.link = none != nullptr ? nullptr : &links_->link(index),
                                           .mac = mac_,
                                           .socket = links_->socket_end(),
                                           .mtu = mtu_of(config_),
                                           .ipv4_checksum_offload = links_->ipv4_checksum_offload(),
                                           .omits_icrc = links_->omits_icrc(),
                                           .line_rate = links_->line_rate(),
                                           .packet_pool = config_.packet_pool,
                                           .drop_observer = links_->capture(),
                                           .clock = clock_,
                                           .index = index,
                                           .is_published = is_published()}));
    shards_.push_back(std::move(made));
  }
  return {};
}

bool Node::is_published() const { return !links_->name().empty() || !config_.name.empty(); }

Expected<void> Node::publish(NamedCounters counters) {
  auto added = stack::CounterGroup::add(published_name(std::move(counters.group)),
                                        std::move(counters.visit), counters.describe);
  if (!added && added.error().code == ErrorCode::busy) {
    return fail(ErrorCode::busy, "{}: give each node of the process a name (NodeConfig::name)",
                added.error().message);
  }
  ROCKHOPPER_TRY(auto group, std::move(added));
  groups_.push_back(std::move(group));
  return {};
}

/// Under the names of the engines' counters.
Expected<void> Node::publish_queue_pairs() {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    ROCKHOPPER_TRY(shards_[i]->qp_telemetry().publish(published_name(shard_group("engine", i))));
  }
  return {};
}

std::string Node::published_name(std::string group) const {
  return config_.name.empty() ? std::move(group) : fmt::format("{}/{}", config_.name, group);
}

std::string Node::shard_group(const char* part, std::size_t shard) const {
  return shards_.size() > 1 ? fmt::format("{}{}", part, shard) : part;
}

NamedCounters Node::dc_counters(std::size_t shard) const {
  return NamedCounters::of(shard_group("dc", shard), *shards_[shard]->dc());
}

std::vector<NamedCounters> Node::counters() const {
  std::vector<NamedCounters> all = links_->counters();
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const Shard& shard = *shards_[i];
    all.push_back(NamedCounters::of(shard_group("host", i), shard.host()));
    all.push_back(NamedCounters::of(shard_group("engine", i), shard.engine()));
    if (shard.dc() != nullptr) all.push_back(dc_counters(i));
  }
  return all;
}

void Node::visit_counters(const CounterVisit& visit) const {
  struct Context {
    const CounterVisit& to;
    const char* group;
  };
  const auto forward = [](void* context, const char* name, std::uint64_t value) {
    const auto& at = *static_cast<const Context*>(context);
    at.to(at.group, name, value);
  };
  for (const NamedCounters& counters : counters()) {
    Context context{visit, counters.group.c_str()};
    counters.visit(forward, &context);
  }
  if (const stack::PcapWriter* capture = links_->capture(); capture != nullptr) {
    visit("pcap", "packets", capture->counters().packets.value());
    visit("pcap", "lost", capture->counters().lost.value());
  }
}

bool Node::turn() {
  const bool moved = poll();
  if (idler_.is_time(moved)) idler_.rest_until(next_deadline_ns(), now_ns());
  return moved;
}

bool Node::poll() {
  bool moved = false;
  for (const auto& shard : shards_) {
    stack::Worker* worker = shard->worker();
    if (worker == nullptr || worker->launched()) continue;
    if (shards_.size() == 1) follow_groups();
    moved = worker->poll_once() || moved;
  }
  return moved;
}

/// Has the ports receive what the only host wants. Those of several shards, or of one that an lcore
/// serves, receive all groups, as the list of wanted ones belongs to another thread.
void Node::follow_groups() {
  const stack::Host& host = shards_[0]->host();
  if (host.groups_generation() == groups_generation_) return;
  groups_generation_ = host.groups_generation();
  links_->receive_groups(host.group_macs());
}

std::uint64_t Node::next_deadline_ns() const {
  std::uint64_t next_ns = stack::kNever;
  for (const auto& shard : shards_) {
    const stack::Worker* worker = shard->worker();
    if (worker != nullptr && !worker->launched()) {
      next_ns = std::min(next_ns, worker->next_deadline_ns());
    }
  }
  return next_ns;
}

Expected<void> Node::launch(std::uint16_t shard, unsigned lcore_id,
                            stack::Application* application) {
  if (shard >= shards_.size()) {
    return fail(ErrorCode::invalid_argument, "the node has {} shards, and none with number {}",
                shards_.size(), shard);
  }
  stack::Worker* worker = shards_[shard]->worker();
  if (worker == nullptr) {
    return fail(ErrorCode::unsupported, "the node has no link that an lcore could serve");
  }
  links_->receive_all_groups();
  return worker->launch(lcore_id, application);
}

void Node::stop() {
  // All of them before any is waited for.
  for (const auto& shard : shards_) {
    if (shard->worker() != nullptr && shard->worker()->launched()) shard->worker()->stop();
  }
  for (const auto& shard : shards_) {
    if (shard->worker() != nullptr) shard->worker()->join();
  }
}

Expected<void> Node::wait_for_link() {
  const std::uint64_t deadline_ns = now_ns() + config_.connect_timeout_ms * kNsPerMs;
  while (!links_->up()) {
    if (config_.keep_waiting) ROCKHOPPER_TRY(config_.keep_waiting());
    if (now_ns() >= deadline_ns) {
      const auto* memif = std::get_if<MemifPort>(&config_.port);
      if (memif == nullptr) {
        return fail(ErrorCode::timeout, "{}: no link after {} s; is the other end running?",
                    links_->name(), config_.connect_timeout_ms / 1000.0);
      }
      return fail(ErrorCode::timeout,
                  "{}: no link with id {} after {} s; the other end does not run, has no link with "
                  "this id on this memif socket, has the same role, or has another peer on it",
                  links_->name(), memif->memif.id, config_.connect_timeout_ms / 1000.0);
    }
    (void)poll();
    pause_ms(1);
  }
  was_up_ = link_alive_ = true;
  return {};
}

bool Node::check_link() {
  const std::uint64_t now_ns = this->now_ns();
  // One that was down is looked at each time: a peer that has just joined has not gone.
  if (now_ns >= next_link_check_ns_ || !link_alive_) {
    next_link_check_ns_ = now_ns + kLinkCheckNs;
    link_alive_ = links_->up();
    was_up_ = was_up_ || link_alive_;
    if (was_up_) {
      for (const auto& shard : shards_) {
        shard->engine().set_port_state(link_alive_ ? roce::PortState::active
                                                   : roce::PortState::down);
      }
    }
  }
  return link_alive_ || !was_up_;
}

dc::Endpoint& Node::dc() {
  assert(shards_[0]->dc() != nullptr);
  return *shards_[0]->dc();
}

Expected<void> Node::open_dc(const dc::EndpointConfig& config) {
  const bool published = !groups_.empty();
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    ROCKHOPPER_TRY(shards_[i]->open_dc(config));
    if (published) ROCKHOPPER_TRY(publish(dc_counters(i)));
  }
  return {};
}

const stack::IpAddress& Node::address() const {
  assert(!config_.addresses.empty());
  return config_.addresses.front().address;
}

Expected<stack::IpAddress> Node::address_of_family(bool ipv4) const {
  for (const InterfaceAddress& own : config_.addresses) {
    if (own.address.is_ipv4() == ipv4) return own.address;
  }
  return fail(ErrorCode::not_found, "the node has no {} address", ipv4 ? "IPv4" : "IPv6");
}

}  // namespace rockhopper
