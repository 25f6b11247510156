// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/node.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "apps/common/counters.h"

namespace rockhopper::apps::publish {
namespace {

constexpr std::uint8_t kReads = 16;
constexpr std::uint8_t kRetries = 7;
/// A look at the clock takes longer than a turn without work.
constexpr std::uint64_t kTurnsPerClock = 16;

}  // namespace

Node::Node(const Options& options, std::unique_ptr<Endpoint> endpoint)
    : options_(options), endpoint_(std::move(endpoint)) {}

Node::~Node() {
  counters_.reset();
  publisher_.reset();
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

Challenge Node::challenge(std::string nonce) const {
  const std::uint32_t largest = dc_ ? (*dc_)->max_path_mtu() : endpoint_->engine().max_path_mtu();
  const std::uint32_t path_mtu =
      options_.path_mtu == 0 ? largest : std::min<std::uint32_t>(largest, options_.path_mtu);
  return {.nonce = std::move(nonce),
          .transport = options_.transport,
          .path_mtu = static_cast<std::uint16_t>(path_mtu)};
}

Expected<void> Node::open(publisher::Policy& policy, publisher::PublisherListener& listener) {
  publisher::PublisherConfig config;
  config.heartbeat_ns = static_cast<std::uint64_t>(options_.heartbeat_ms * 1e6);
  config.max_subscribers = options_.subscribers_max;
  config.path_mtu = static_cast<roce::PathMtu>(challenge("").path_mtu);
  config.timeout = static_cast<std::uint8_t>(options_.ack_timeout);
  if (options_.multicast) {
    ROCKHOPPER_TRY(config.multicast, multicast());
  }
  ROCKHOPPER_TRY(publisher_,
                 publisher::Publisher::create(endpoint_->engine(), dc_ ? dc_->get() : nullptr,
                                              policy, listener, config));
  for (const StoreSpec& spec : options_.stores) {
    ROCKHOPPER_TRY(auto store,
                   ServedStore::open(spec, static_cast<std::uint16_t>(stores_.size() + 1),
                                     options_.key, endpoint_->random()));
    ROCKHOPPER_TRY(publisher_->add_store(spec.name, store->any()));
    stores_.push_back(std::move(store));
  }
  ROCKHOPPER_TRY(counters_, stack::add_counter_group("publisher", *publisher_));
  return {};
}

Expected<publisher::MulticastConfig> Node::multicast() const {
  auto own = endpoint_->address_of_family(options_.multicast->is_ipv4());
  if (!own) {
    return fail(own.error().code, "--multicast {}: {}", options_.multicast->to_string(),
                own.error().message);
  }
  const std::uint32_t largest = endpoint_->engine().max_path_mtu();
  return publisher::MulticastConfig{
      .group = *options_.multicast,
      .source = *own,
      .path_mtu = static_cast<roce::PathMtu>(
          options_.path_mtu == 0 ? largest : std::min<std::uint32_t>(largest, options_.path_mtu)),
      .traffic_class = static_cast<std::uint8_t>(options_.endpoint.traffic_class),
      .pkey_index = options_.endpoint.pkey_index};
}

ServedStore* Node::find_store(std::string_view name) {
  const auto found = std::find_if(stores_.begin(), stores_.end(),
                                  [&](const auto& store) { return store->spec().name == name; });
  return found == stores_.end() ? nullptr : found->get();
}

Expected<Node::Admitted> Node::admit(const Hello& hello) {
  ROCKHOPPER_TRY(auto own, endpoint_->address_of_family(hello.side.gid.is_ipv4()));
  return dc_ ? admit_dc(hello, own) : admit_queue_pair(hello, own);
}

Expected<Node::Admitted> Node::admit_queue_pair(const Hello& hello, const stack::IpAddress& own) {
  roce::Engine& engine = endpoint_->engine();
  ROCKHOPPER_TRY(auto qp, engine.create_qp(publisher_->qp_init()));
  const wire::Psn psn = engine.random_psn();
  roce::QpAttributes attributes;
  attributes.qp_access_flags = roce::kAccessRemoteRead;
  attributes.pkey_index = options_.endpoint.pkey_index;
  attributes.path_mtu = static_cast<roce::PathMtu>(hello.path_mtu);
  attributes.dest_qp_num = wire::Qpn::make(hello.side.qpn);
  attributes.rq_psn = wire::Psn::make(hello.side.psn);
  attributes.sq_psn = psn;
  attributes.max_dest_rd_atomic = kReads;
  attributes.ah_attr.source = own;
  attributes.ah_attr.destination = hello.side.gid;
  attributes.ah_attr.traffic_class = static_cast<std::uint8_t>(options_.endpoint.traffic_class);
  attributes.timeout = static_cast<std::uint8_t>(options_.ack_timeout);
  attributes.retry_cnt = attributes.rnr_retry = kRetries;
  auto id = qp->bring_up(attributes, roce::QpState::rts).and_then([&] {
    return publisher_->add_subscriber(hello.name, *qp);
  });
  if (!id) {
    engine.destroy_qp(qp);
    return tl::make_unexpected(id.error());
  }
  return Admitted{
      .id = *id, .qp = qp, .side = {.gid = own, .qpn = qp->number().value, .psn = psn.value}};
}

Expected<Node::Admitted> Node::admit_dc(const Hello& hello, const stack::IpAddress& own) {
  const dc::TargetAddress subscriber{
      .av = {.source = own,
             .destination = hello.side.gid,
             .traffic_class = static_cast<std::uint8_t>(options_.endpoint.traffic_class)},
      .number = wire::Qpn::make(hello.side.qpn),
      .access_key = hello.side.access_key};
  ROCKHOPPER_TRY(auto id, publisher_->add_subscriber(hello.name, subscriber));
  const dc::Dct* target = publisher_->target(id);
  return Admitted{
      .id = id,
      .side = {.gid = own, .qpn = target->number().value, .access_key = target->access_key()}};
}

void Node::dismiss(const Admitted& subscriber) {
  publisher_->remove_subscriber(subscriber.id);
  if (subscriber.qp != nullptr) endpoint_->engine().destroy_qp(subscriber.qp);
}

bool Node::turn() {
  bool worked = endpoint_->turn();
  if (turns_++ % kTurnsPerClock == 0) now_ns_ = endpoint_->now_ns();
  worked = publisher_->progress(now_ns_) || worked;
  return worked;
}

nlohmann::json Node::counters() const { return counters_to_json(*publisher_); }

void Node::print_statistics(std::FILE* out) const {
  endpoint_->print_statistics(out);
  if (dc_) dc_->print_statistics(out);
  if (publisher_ == nullptr) return;
  print_counters(out, "publisher", *publisher_);
}

}  // namespace rockhopper::apps::publish
