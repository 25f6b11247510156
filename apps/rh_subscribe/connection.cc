// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_subscribe/connection.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "apps/common/counters.h"
#include "apps/common/steady_clock.h"
#include "apps/common/tcp.h"
#include "apps/rh_publish/proof.h"

namespace rockhopper::apps::subscribe {
namespace {

using publish::Challenge;
using publish::Hello;
using publish::Welcome;

constexpr std::uint16_t kSubscriptionsMax = 64;
/// For requests that find no buffer for a moment: 10 us.
constexpr std::uint8_t kMinRnrTimer = 1;

}  // namespace

Connection::~Connection() {
  unpublish();
  drop_queue_pair();
}

Expected<std::unique_ptr<Connection>> Connection::create(const Options& options,
                                                         const EndpointConfig& config,
                                                         const stack::Arguments& arguments,
                                                         publisher::SubscriberListener& listener) {
  ROCKHOPPER_TRY(check_host(options.host));
  ROCKHOPPER_TRY(auto endpoint, Endpoint::create(config, arguments));
  ROCKHOPPER_TRY(endpoint->wait_for_link());
  return std::unique_ptr<Connection>(new Connection(options, listener, std::move(endpoint)));
}

void Connection::drop_queue_pair() {
  if (qp_ != nullptr) engine().destroy_qp(std::exchange(qp_, nullptr));
}

Expected<void> Connection::connect() {
  channel_.reset();
  drop_queue_pair();
  ROCKHOPPER_TRY(auto tcp, TcpConnection::connect(options_.host, options_.port,
                                                  endpoint().config().connect_timeout_ms, *this));
  channel_.emplace(std::move(tcp), *this);
  ROCKHOPPER_TRY(auto received, channel_->receive("challenge"));
  ROCKHOPPER_TRY(auto challenge, fields_from_json<Challenge>(received));
  ROCKHOPPER_TRY(path_mtu_, choose_path_mtu(challenge));
  ROCKHOPPER_TRY(make_subscriber(challenge));
  ROCKHOPPER_TRY(auto own, make_side());
  ROCKHOPPER_TRY(auto welcome, greet(own, received));
  return join(own, welcome.side);
}

Expected<std::uint16_t> Connection::choose_path_mtu(const Challenge& challenge) {
  if (options_.path_mtu > challenge.path_mtu) {
    return fail(ErrorCode::unsupported, "the publisher's path MTU is {}; --mtu {} is more",
                challenge.path_mtu, options_.path_mtu);
  }
  const auto path_mtu = static_cast<std::uint16_t>(
      options_.path_mtu != 0
          ? options_.path_mtu
          : std::min<std::uint32_t>(challenge.path_mtu, engine().max_path_mtu()));
  // With dynamic connections each end has one for all its peers.
  if (challenge.transport == Transport::dc && path_mtu != challenge.path_mtu) {
    return fail(ErrorCode::unsupported, "the publisher's path MTU is {}, ours {}; give it --mtu {}",
                challenge.path_mtu, path_mtu, path_mtu);
  }
  return path_mtu;
}

Expected<void> Connection::make_subscriber(const Challenge& challenge) {
  if (subscriber_ != nullptr) {
    if (challenge.transport == transport_) return {};
    return fail(ErrorCode::unsupported, "the publisher has another --transport than before");
  }
  transport_ = challenge.transport;
  if (transport_ == Transport::dc) {
    ROCKHOPPER_TRY(open_dc());
    path_mtu_ = own_path_mtu(path_mtu_);
  }
  publisher::SubscriberConfig config;
  config.max_subscriptions = kSubscriptionsMax;
  config.path_mtu = static_cast<roce::PathMtu>(path_mtu_);
  config.timeout = static_cast<std::uint8_t>(options_.ack_timeout);
  config.multicast_pkey_index = options_.endpoint.pkey_index;
  if (options_.no_multicast) config.multicast_buffers = 0;
  ROCKHOPPER_TRY(subscriber_, publisher::Subscriber::create(engine(), dc(), listener_, config));
  return publish("subscriber", "subscriber", *subscriber_);
}

Expected<QueueAddress> Connection::make_side() {
  QueueAddress side{.gid = endpoint().addresses().front().address};
  if (dc() != nullptr) {
    side.qpn = subscriber_->target()->number().value;
    side.access_key = subscriber_->target()->access_key();
    return side;
  }
  ROCKHOPPER_TRY(qp_, engine().create_qp(subscriber_->qp_init()));
  side.qpn = qp_->number().value;
  side.psn = engine().random_psn().value;
  return side;
}

Expected<Welcome> Connection::greet(const QueueAddress& side, const nlohmann::json& challenge) {
  ROCKHOPPER_TRY(auto nonce, publish::make_nonce());
  nlohmann::json hello = fields_to_json(
      Hello{.name = options_.name, .nonce = std::move(nonce), .path_mtu = path_mtu_, .side = side});
  if (!options_.secret.empty()) publish::add_proof(hello, options_.secret, challenge);
  ROCKHOPPER_TRY(channel_->send("hello", hello));
  ROCKHOPPER_TRY(auto welcome, channel_->receive("welcome"));
  if (!options_.secret.empty() && !publish::has_proof(welcome, options_.secret, challenge, hello)) {
    return fail(ErrorCode::invalid_argument,
                "the publisher does not prove that it knows the secret of {}", options_.name);
  }
  return fields_from_json<Welcome>(welcome);
}

Expected<void> Connection::join(const QueueAddress& own, const QueueAddress& remote) {
  ROCKHOPPER_TRY(endpoint().check_peer(remote.gid));
  if (dc() != nullptr) return subscriber_->connect(target_address(own.gid, remote));
  roce::QpAttributes attributes = rc_attributes(own, remote, path_mtu_, options_.ack_timeout);
  attributes.max_rd_atomic = publisher::Subscriber::kReads;
  attributes.min_rnr_timer = kMinRnrTimer;
  ROCKHOPPER_TRY(qp_->bring_up(attributes, roce::QpState::rts));
  return subscriber_->connect(*qp_);
}

Expected<bool> Connection::poll_end() {
  ROCKHOPPER_TRY(auto message, channel_->poll());
  return message.has_value() && message->type == "end";
}

void Connection::give_up() {
  if (qp_ == nullptr) return;
  const roce::QpAttributes error{.qp_state = roce::QpState::err};
  (void)qp_->modify(error, roce::kQpState);
}

bool Connection::progress(std::uint64_t now_ns) {
  return subscriber_ != nullptr && subscriber_->progress(now_ns);
}

nlohmann::json Connection::counters() const {
  return subscriber_ == nullptr ? nlohmann::json::object() : counters_to_json(*subscriber_);
}

}  // namespace rockhopper::apps::subscribe
