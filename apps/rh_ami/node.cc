// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_ami/node.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <nlohmann/json.hpp>

#include "apps/common/counters.h"

namespace rockhopper::apps::messages {
namespace {

constexpr std::uint8_t kRdAtomic = 16;
/// For receivers that have no buffer for a moment: 10 us.
constexpr std::uint8_t kMinRnrTimer = 1;
constexpr std::uint8_t kRetries = 7;
constexpr std::uint16_t kEndpoints = 2;
/// A look at the clock takes longer than a turn without work.
constexpr std::uint64_t kTurnsPerClock = 16;

}  // namespace

Node::Node(const Options& options, std::unique_ptr<Endpoint> endpoint)
    : options_(options),
      endpoint_(std::move(endpoint)),
      application_(options.threads > 1, endpoint_->config().idle) {}

Node::~Node() {
  if (adapter_ == nullptr) return;
  set_work(nullptr);
  counters_.reset();
  roce::Engine& engine = endpoint_->engine();
  if (qp_ != nullptr) engine.destroy_qp(qp_);
  context_.reset();
  adapter_.reset();
  if (region_.base != nullptr) (void)engine.deregister_memory(region_.key);
}

Expected<std::unique_ptr<Node>> Node::create(const Options& options, const EndpointConfig& config,
                                             const stack::Arguments& arguments) {
  ROCKHOPPER_TRY(auto endpoint, Endpoint::create(config, arguments));
  std::unique_ptr<Node> node(new Node(options, std::move(endpoint)));
  if (options.transport == Transport::dc) {
    ROCKHOPPER_TRY(auto made, DcEndpoint::create(node->endpoint_->engine()));
    node->dc_.emplace(std::move(made));
  }
  return node;
}

std::uint32_t Node::path_mtu_max() const {
  return dc_ ? (*dc_)->max_path_mtu() : endpoint_->engine().max_path_mtu();
}

Expected<Side> Node::prepare(const Agreement& agreement, ami::EndpointId self,
                             std::optional<bool> ipv4) {
  agreement_ = agreement;
  layout_ = agreement.layout();
  side_.gid = endpoint_->addresses().front().address;
  if (ipv4) {
    ROCKHOPPER_TRY(side_.gid, endpoint_->address_of_family(*ipv4));
  }
  ROCKHOPPER_TRY(make_lane(self));
  ROCKHOPPER_TRY(make_memory());
  if (!dc_) ROCKHOPPER_TRY(make_queue_pair());
  return side_;
}

Expected<void> Node::make_lane(ami::EndpointId self) {
  ami::AdapterConfig config;
  config.transfers = std::max(config.transfers, 2 * agreement_.window);
  config.path_mtu = static_cast<roce::PathMtu>(agreement_.path_mtu);
  config.dcis = 1;
  config.timeout = agreement_.ack_timeout;
  config.retry_cnt = kRetries;
  ROCKHOPPER_TRY(adapter_,
                 ami::Adapter::create(endpoint_->engine(), dc_ ? dc_->get() : nullptr, config));
  ROCKHOPPER_TRY(counters_, stack::add_counter_group("ami", *adapter_));
  ami::LaneConfig lane;
  lane.self = self;
  lane.max_endpoints = kEndpoints;
  lane.fifo.completion = options_.completion;
  lane.fifo.slots = options_.slots;
  lane.eager_bytes = agreement_.eager_bytes;
  lane.max_message_bytes = std::max(agreement_.size_max, 1u);
  ROCKHOPPER_TRY(lane_, adapter_->add_lane(lane));
  context_ = std::make_unique<ami::Context>(*lane_);
  ROCKHOPPER_TRY(context_counters_, stack::add_counter_group("ami_context", *context_));
  return {};
}

Expected<void> Node::make_memory() {
  ROCKHOPPER_TRY(memory_, SharedMemory::create(layout_.bytes()));
  ROCKHOPPER_TRY(region_, endpoint_->engine().register_memory(adapter_->pd(), memory_.data(),
                                                              memory_.size(), roce::kAccessAll));
  side_.address = region_.iova;
  side_.rkey = static_cast<std::uint32_t>(region_.key);
  if (agreement_.check) {
    side_.shared_path = memory_.path();
    side_.token = endpoint_->random().next();
    std::memcpy(memory_.data() + Layout::kToken, &side_.token, sizeof side_.token);
  }
  if (dc_) {
    const dc::Dct& target = adapter_->target(*lane_);
    side_.qpn = target.number().value;
    side_.access_key = target.access_key();
  }
  return {};
}

Expected<void> Node::make_queue_pair() {
  ROCKHOPPER_TRY(qp_, endpoint_->engine().create_qp(adapter_->qp_init(*lane_)));
  side_.qpn = qp_->number().value;
  side_.psn = endpoint_->engine().random_psn().value;
  return {};
}

Expected<void> Node::connect_queue_pair(const Side& remote) {
  roce::QpAttributes attributes;
  attributes.qp_access_flags = roce::kAccessAll;
  attributes.pkey_index = options_.endpoint.pkey_index;
  attributes.path_mtu = static_cast<roce::PathMtu>(agreement_.path_mtu);
  attributes.dest_qp_num = wire::Qpn::make(remote.qpn);
  attributes.rq_psn = wire::Psn::make(remote.psn);
  attributes.sq_psn = wire::Psn::make(side_.psn);
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = kRdAtomic;
  attributes.min_rnr_timer = kMinRnrTimer;
  attributes.ah_attr.source = side_.gid;
  attributes.ah_attr.destination = remote.gid;
  attributes.ah_attr.traffic_class = static_cast<std::uint8_t>(options_.endpoint.traffic_class);
  attributes.timeout = agreement_.ack_timeout;
  attributes.retry_cnt = attributes.rnr_retry = kRetries;
  ROCKHOPPER_TRY(qp_->bring_up(attributes, roce::QpState::rts));
  return adapter_->add_peer(*lane_, peer_, *qp_);
}

Expected<void> Node::connect(const Side& remote, ami::EndpointId peer) {
  peer_ = peer;
  remote_address_ = remote.address;
  remote_key_ = static_cast<roce::MemoryKey>(remote.rkey);
  if (agreement_.check) open_peer_memory(remote);
  ROCKHOPPER_TRY(dc_ ? adapter_->add_peer(*lane_, peer,
                                          {.av = {.source = side_.gid,
                                                  .destination = remote.gid,
                                                  .traffic_class = static_cast<std::uint8_t>(
                                                      options_.endpoint.traffic_class)},
                                           .number = wire::Qpn::make(remote.qpn),
                                           .access_key = remote.access_key})
                     : connect_queue_pair(remote));
  open_ = true;
  return adapter_->open(*lane_);
}

void Node::open_peer_memory(const Side& remote) {
  auto memory = SharedMemory::open(remote.shared_path, layout_.bytes());
  if (!memory) return;  // on another machine, or somebody else's
  if (std::memcmp(memory->data() + Layout::kToken, &remote.token, sizeof remote.token) == 0) {
    peer_memory_ = std::move(*memory);
  }
}

bool Node::turn() {
  bool worked = endpoint_->turn();
  if (!open_) return worked;
  // The adapter looks for silent peers by it, and is content with less than a millisecond's.
  if (turns_++ % kTurnsPerClock == 0) now_ns_ = endpoint_->now_ns();
  worked = adapter_->progress(now_ns_) || worked;
  if (application_.turn()) {
    // What it has injected goes out with the next packets.
    (void)adapter_->progress(now_ns_);
    worked = true;
  }
  return worked;
}

ami::Local Node::local(std::size_t offset, std::uint32_t length) const {
  return {.addr = region_.iova + offset, .length = length, .lkey = region_.key};
}

ami::Remote Node::remote(std::size_t offset) const {
  return {.endpoint = peer_, .addr = remote_address_ + offset, .rkey = remote_key_};
}

nlohmann::json Node::counters() const { return counters_to_json(*adapter_); }

void Node::print_statistics(std::FILE* out) const {
  endpoint_->print_statistics(out);
  if (dc_) dc_->print_statistics(out);
  if (context_ == nullptr) return;
  print_counters(out, "ami", *adapter_);
  print_counters(out, "ami_context", *context_);
}

}  // namespace rockhopper::apps::messages
