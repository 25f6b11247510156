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

}  // namespace

Node::~Node() { unpublish(); }

Expected<std::unique_ptr<Node>> Node::create(const Options& options, const EndpointConfig& config,
                                             const stack::Arguments& arguments) {
  ROCKHOPPER_TRY(auto endpoint, Endpoint::create(config, arguments));
  std::unique_ptr<Node> node(new Node(options, std::move(endpoint)));
  if (options.transport == Transport::dc) ROCKHOPPER_TRY(node->open_dc());
  return node;
}

Challenge Node::challenge(std::string nonce) const {
  return {.nonce = std::move(nonce),
          .transport = options_.transport,
          .path_mtu = own_path_mtu(options_.path_mtu)};
}

Expected<void> Node::open(publisher::Policy& policy, publisher::PublisherListener& listener) {
  publisher::PublisherConfig config;
  config.heartbeat_ns = static_cast<std::uint64_t>(options_.heartbeat_ms * 1e6);
  config.max_subscribers = options_.subscribers_max;
  config.path_mtu = static_cast<roce::PathMtu>(own_path_mtu(options_.path_mtu));
  config.timeout = static_cast<std::uint8_t>(options_.ack_timeout);
  if (options_.multicast) {
    ROCKHOPPER_TRY(config.multicast, multicast());
  }
  ROCKHOPPER_TRY(publisher_,
                 publisher::Publisher::create(engine(), dc(), policy, listener, config));
  for (const StoreSpec& spec : options_.stores) {
    ROCKHOPPER_TRY(auto store,
                   ServedStore::open(spec, static_cast<std::uint16_t>(stores_.size() + 1),
                                     options_.key, endpoint().random()));
    ROCKHOPPER_TRY(publisher_->add_store(spec.name, store->any()));
    stores_.push_back(std::move(store));
  }
  return publish("publisher", "publisher", *publisher_);
}

Expected<publisher::MulticastConfig> Node::multicast() {
  auto own = endpoint().address_of_family(options_.multicast->is_ipv4());
  if (!own) {
    return fail(own.error().code, "--multicast {}: {}", options_.multicast->to_string(),
                own.error().message);
  }
  const std::uint32_t largest = engine().max_path_mtu();
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
  ROCKHOPPER_TRY(auto own, endpoint().address_of_family(hello.side.gid.is_ipv4()));
  ROCKHOPPER_TRY(endpoint().check_peer(hello.side.gid));
  return dc() != nullptr ? admit_dc(hello, own) : admit_queue_pair(hello, own);
}

Expected<Node::Admitted> Node::admit_queue_pair(const Hello& hello, const stack::IpAddress& own) {
  ROCKHOPPER_TRY(auto qp, engine().create_qp(publisher_->qp_init()));
  const QueueAddress side{
      .gid = own, .qpn = qp->number().value, .psn = engine().random_psn().value};
  roce::QpAttributes attributes =
      rc_attributes(side, hello.side, hello.path_mtu, options_.ack_timeout);
  attributes.qp_access_flags = roce::kAccessRemoteRead;
  attributes.max_dest_rd_atomic = kReads;
  auto id = qp->bring_up(attributes, roce::QpState::rts).and_then([&] {
    return publisher_->add_subscriber(hello.name, *qp);
  });
  if (!id) {
    engine().destroy_qp(qp);
    return tl::make_unexpected(id.error());
  }
  return Admitted{.id = *id, .qp = qp, .side = side};
}

Expected<Node::Admitted> Node::admit_dc(const Hello& hello, const stack::IpAddress& own) {
  ROCKHOPPER_TRY(auto id, publisher_->add_subscriber(hello.name, target_address(own, hello.side)));
  const dc::Dct* target = publisher_->target(id);
  return Admitted{
      .id = id,
      .side = {.gid = own, .qpn = target->number().value, .access_key = target->access_key()}};
}

void Node::dismiss(const Admitted& subscriber) {
  publisher_->remove_subscriber(subscriber.id);
  if (subscriber.qp != nullptr) engine().destroy_qp(subscriber.qp);
}

bool Node::progress(std::uint64_t now_ns) { return publisher_->progress(now_ns); }

nlohmann::json Node::counters() const { return counters_to_json(*publisher_); }

}  // namespace rockhopper::apps::publish
